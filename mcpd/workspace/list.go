package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

const (
	listDefault = 1000
	listMax     = 10000
	visitMax    = 200000 // entries read in one call
	pathMax     = 4096   // bytes of a directory's path

	timeFormat = "2006-01-02T15:04:05Z"
)

type listArgs struct {
	target
	Pattern   string `json:"pattern"`
	Recursive bool   `json:"recursive"`
	Offset    int64  `json:"offset"`
	Limit     *int64 `json:"limit"`
}

type entry struct {
	Path   string `json:"path"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	Mtime  string `json:"mtime"`
	Target string `json:"target,omitempty"` // of a symbolic link
}

// A listing is one call's walk through a directory.
type listing struct {
	Entries    []entry `json:"entries"`
	NextOffset int64   `json:"next_offset,omitempty"`
	Incomplete bool    `json:"incomplete,omitempty"` // visitMax or pathMax was reached
	Refused    int     `json:"refused,omitempty"`    // directories, by the policy

	place
	args   listArgs
	limit  int64
	want   func(rel string, d fs.DirEntry) bool
	passed int64
	read   int // entries of all directories
}

func dirList(ctx context.Context, in place, a listArgs) (*result, error) {
	if a.Pattern != "" {
		return nil, fmt.Errorf("arguments: unknown field \"pattern\"")
	}
	l := &listing{place: in, args: a}
	l.want = func(string, fs.DirEntry) bool { return true }
	return l.run(ctx)
}

func fileList(ctx context.Context, in place, a listArgs) (*result, error) {
	if _, err := path.Match(a.Pattern, ""); err != nil {
		return nil, fmt.Errorf("argument \"pattern\": %w", err)
	}
	l := &listing{place: in, args: a}
	l.want = func(rel string, d fs.DirEntry) bool {
		return d.Type().IsRegular() && matches(a.Pattern, rel)
	}
	return l.run(ctx)
}

func matches(pattern, rel string) bool {
	if pattern == "" {
		return true
	}
	if !strings.Contains(pattern, "/") {
		rel = path.Base(rel)
	}
	ok, _ := path.Match(pattern, rel)
	return ok
}

func (l *listing) run(ctx context.Context) (*result, error) {
	limit, err := bounds(l.args.Offset, l.args.Limit, listDefault, listMax)
	if err != nil {
		return nil, err
	}
	l.limit, l.Entries = limit, []entry{}
	name := l.args.Path
	if len(name) > pathMax {
		return nil, at(name, syscall.ENAMETOOLONG)
	}
	info, err := l.root.Stat(name)
	if err != nil {
		return nil, at(name, err)
	}
	if !info.IsDir() {
		return nil, at(name, fmt.Errorf("is a %s, not a directory", kind(info.Mode())))
	}
	entries, err := l.entries(name)
	if err == nil {
		err = l.walk(ctx, name, "", entries)
	}
	if err != nil && err != fs.SkipAll {
		return nil, at(name, err)
	}
	return &result{Content: []any{text("%s", l.text())}, Structured: l}, nil
}

// walk visits what is in the directory rel below top, in the order of names.
func (l *listing) walk(ctx context.Context, top, rel string, entries []fs.DirEntry) error {
	for _, d := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		rel := path.Join(rel, d.Name())
		p := path.Join(top, rel)
		if l.want(rel, d) {
			if int64(len(l.Entries)) == l.limit {
				l.NextOffset = l.args.Offset + l.limit
				return fs.SkipAll
			}
			if l.passed++; l.passed > l.args.Offset {
				l.add(p, d)
			}
		}
		if !d.IsDir() || !l.args.Recursive {
			continue
		}
		if !l.admits(p) {
			l.Refused++
			continue
		}
		below, err := l.entries(p)
		if err != nil {
			continue // it was listed; it cannot be read, or has gone
		}
		if err := l.walk(ctx, top, rel, below); err != nil {
			return err
		}
	}
	return nil
}

// entries returns what is in a directory, in the order of names. A guest can
// make more, and deeper, than there is room for: where it is too much, that is
// left out.
func (l *listing) entries(dir string) ([]fs.DirEntry, error) {
	if len(dir) > pathMax {
		l.Incomplete = true
		return nil, nil
	}
	f, err := openDir(l.root, dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	room := visitMax - l.read
	entries, err := f.ReadDir(room + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > room {
		l.Incomplete = true
		entries = entries[:room]
	}
	l.read += len(entries)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (l *listing) add(p string, d fs.DirEntry) {
	e := entry{Path: p, Type: kind(d.Type())}
	if info, err := d.Info(); err == nil {
		e.Size = info.Size()
		e.Mtime = info.ModTime().UTC().Format(timeFormat)
	}
	if e.Type == "symlink" {
		e.Target, _ = l.root.Readlink(p)
	}
	l.Entries = append(l.Entries, e)
}

// text is the listing for people and models: a line an entry.
func (l *listing) text() string {
	var b strings.Builder
	for _, e := range l.Entries {
		fmt.Fprintf(&b, "%s %d %s", e.Type, e.Size, quote(e.Path))
		if e.Target != "" {
			fmt.Fprintf(&b, " -> %s", quote(e.Target))
		}
		b.WriteByte('\n')
	}
	switch {
	case l.Incomplete:
		fmt.Fprintf(&b, "[more than %d files, or paths of more than %d bytes: list a directory below]\n", visitMax, pathMax)
	case l.NextOffset > 0:
		fmt.Fprintf(&b, "[more: go on with offset %d]\n", l.NextOffset)
	case len(l.Entries) == 0:
		b.WriteString("[nothing]\n")
	}
	b.WriteString(leftOut("the policy refuses it", l.Refused))
	return b.String()
}
