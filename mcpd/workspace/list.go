package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

const (
	listDefault = 1000
	listMax     = 10000
	visitMax    = 200000 // entries looked at in one call
)

type listArgs struct {
	Path      string `json:"path"`
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
	Incomplete bool    `json:"incomplete,omitempty"` // visitMax was reached

	root    *os.Root
	args    listArgs
	limit   int64
	want    func(rel string, d fs.DirEntry) bool
	passed  int64
	visited int
}

func dirList(ctx context.Context, in place, a listArgs) (*result, error) {
	if a.Pattern != "" {
		return nil, fmt.Errorf("arguments: unknown field \"pattern\"")
	}
	l := &listing{root: in.root, args: a}
	l.want = func(string, fs.DirEntry) bool { return true }
	return l.run(ctx)
}

func fileList(ctx context.Context, in place, a listArgs) (*result, error) {
	if _, err := path.Match(a.Pattern, ""); err != nil {
		return nil, fmt.Errorf("argument \"pattern\": %w", err)
	}
	l := &listing{root: in.root, args: a}
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
	name, err := clean(l.args.Path)
	if err != nil {
		return nil, err
	}
	info, err := l.root.Stat(name)
	if err != nil {
		return nil, at(name, err)
	}
	if !info.IsDir() {
		return nil, at(name, fmt.Errorf("is a %s, not a directory", kind(info.Mode())))
	}
	err = fs.WalkDir(l.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		return l.visit(name, p, d, err)
	})
	if err != nil {
		return nil, at(name, err)
	}
	return &result{Content: []any{text("%s", l.text())}, Structured: l}, nil
}

// visit is called for each file below top, in the order of their names.
func (l *listing) visit(top, p string, d fs.DirEntry, err error) error {
	if err != nil {
		if p == top {
			return err
		}
		return nil // it was listed; it cannot be read, or has gone
	}
	if p == top {
		return nil
	}
	if l.visited++; l.visited > visitMax {
		l.Incomplete = true
		return fs.SkipAll
	}
	rel := p
	if top != "." {
		rel = strings.TrimPrefix(p, top+"/")
	}
	if l.want(rel, d) {
		if int64(len(l.Entries)) == l.limit {
			l.NextOffset = l.args.Offset + l.limit
			return fs.SkipAll
		}
		if l.passed++; l.passed > l.args.Offset {
			l.add(p, d)
		}
	}
	if d.IsDir() && !l.args.Recursive {
		return fs.SkipDir
	}
	return nil
}

func (l *listing) add(p string, d fs.DirEntry) {
	e := entry{Path: p, Type: kind(d.Type())}
	if info, err := d.Info(); err == nil {
		e.Size = info.Size()
		e.Mtime = info.ModTime().UTC().Format("2006-01-02T15:04:05Z")
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
		fmt.Fprintf(&b, "%s %d %s", e.Type, e.Size, e.Path)
		if e.Target != "" {
			fmt.Fprintf(&b, " -> %s", e.Target)
		}
		b.WriteByte('\n')
	}
	switch {
	case l.Incomplete:
		fmt.Fprintf(&b, "[more than %d files: list a directory below]\n", visitMax)
	case l.NextOffset > 0:
		fmt.Fprintf(&b, "[more: go on with offset %d]\n", l.NextOffset)
	case len(l.Entries) == 0:
		b.WriteString("[nothing]\n")
	}
	return b.String()
}
