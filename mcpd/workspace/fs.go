package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hutch/aggd/storage"
	"hutch/fs"
)

// These are AEGIS's tools. They work on a Storage, wherever that is.

// done begins what each of them tells programs.
type done struct {
	Success bool `json:"success"`
}

var success = done{true}

// quote returns a name as it stands in a line that people and models read, which
// a guest could put more lines into.
func quote(name string) string { return fs.QuoteLine(name) }

type fsPiece struct {
	done
	*piece
}

func fsRead(ctx context.Context, in place, a readArgs) (*result, error) {
	limit, err := bounds(a.Offset, a.Limit, readDefault, readMax)
	if err != nil {
		return nil, err
	}
	data, info, err := in.store.Read(ctx, a.Path, a.Offset, limit)
	if err != nil {
		return nil, err
	}
	p := piece{Path: a.Path, Size: max(info.Size, a.Offset+int64(len(data))), Offset: a.Offset}
	r, err := p.result(data, a.Encoding)
	if err != nil {
		return nil, err
	}
	r.Structured = fsPiece{success, &p}
	return r, nil
}

type putArgs struct {
	target
	content
}

type stored struct {
	done
	BytesWritten int `json:"bytes_written"`
}

// fsPut returns what a tool does that writes a file, where there is one or none
// as how says.
func fsPut(how storage.How) func(context.Context, place, putArgs) (*result, error) {
	return func(ctx context.Context, in place, a putArgs) (*result, error) {
		data, err := a.data()
		if err != nil {
			return nil, err
		}
		if err := in.store.Write(ctx, a.Path, data, how); err != nil {
			return nil, err
		}
		return &result{
			Content:    []any{text("wrote %d bytes to %s", len(data), a.Path)},
			Structured: stored{success, len(data)},
			bytes:      int64(len(data)),
		}, nil
	}
}

func fsDelete(ctx context.Context, in place, a target) (*result, error) {
	info, err := in.store.Stat(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	if info.Kind == storage.Folder {
		return nil, at(a.Path, errors.New("is a directory"))
	}
	if err := in.store.Remove(ctx, a.Path); err != nil {
		return nil, err
	}
	return &result{Content: []any{text("deleted %s", a.Path)}, Structured: success}, nil
}

// editMax is the size of the largest file that is edited.
const editMax = writeMax

type editArgs struct {
	target
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all"`
}

type edited struct {
	stored
	Replacements int `json:"replacements"`
}

func fsEdit(ctx context.Context, in place, a editArgs) (*result, error) {
	if a.Old == "" {
		return nil, errors.New("old is missing")
	}
	data, info, err := in.store.Read(ctx, a.Path, 0, editMax)
	if err != nil {
		return nil, err
	}
	if info.Size > editMax {
		return nil, at(a.Path, fmt.Errorf("%d bytes are over the limit of %d", info.Size, editMax))
	}
	n := strings.Count(string(data), a.Old)
	switch {
	case n == 0:
		return nil, at(a.Path, errors.New("the text old is not in it"))
	case n > 1 && !a.All:
		return nil, at(a.Path, fmt.Errorf("the text old is in it %d times: have more of it, or set all", n))
	}
	if size := int64(len(data)) + int64(n)*int64(len(a.New)-len(a.Old)); size > editMax {
		return nil, at(a.Path, fmt.Errorf("%d bytes would be over the limit of %d", size, editMax))
	}
	changed := strings.ReplaceAll(string(data), a.Old, a.New)
	if err := in.store.Replace(ctx, a.Path, []byte(changed), info); err != nil {
		return nil, err
	}
	return &result{
		Content:    []any{text("replaced %d times in %s", n, a.Path)},
		Structured: edited{stored{success, len(changed)}, n},
		bytes:      int64(len(changed)),
	}, nil
}

type fsListArgs struct {
	target
	Offset int64  `json:"offset"`
	Limit  *int64 `json:"limit"`
}

type fsListing struct {
	done
	Entries    []entry `json:"entries"`
	NextOffset int64   `json:"next_offset,omitempty"`
}

func fsList(ctx context.Context, in place, a fsListArgs) (*result, error) {
	limit, err := bounds(a.Offset, a.Limit, listDefault, listMax)
	if err != nil {
		return nil, err
	}
	list, more, err := in.store.List(ctx, a.Path, visitMax)
	if err != nil {
		return nil, err
	}
	l := fsListing{done: success, Entries: []entry{}}
	var lines strings.Builder
	for i, e := range list {
		if int64(i) < a.Offset {
			continue
		}
		if int64(len(l.Entries)) == limit {
			l.NextOffset = a.Offset + limit
			break
		}
		l.Entries = append(l.Entries, entry{Path: e.Name, Type: e.Kind, Size: e.Size, Mtime: e.Time.UTC().Format(timeFormat)})
		fmt.Fprintf(&lines, "%s %d %s\n", e.Kind, e.Size, quote(e.Name))
	}
	switch {
	case l.NextOffset > 0:
		fmt.Fprintf(&lines, "[more: go on with offset %d]\n", l.NextOffset)
	case more:
		fmt.Fprintf(&lines, "[more than %d entries]\n", visitMax)
	case len(l.Entries) == 0:
		lines.WriteString("[nothing]\n")
	}
	return &result{Content: []any{text("%s", lines.String())}, Structured: l}, nil
}
