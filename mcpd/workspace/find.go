package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"hutch/aggd/storage"
)

const (
	foundDefault = 200
	foundMax     = 10000
	patternMax   = 1000     // bytes of a regular expression
	programMax   = 1000     // instructions that it is compiled to
	grepFile     = 4 << 20  // bytes of a file that is looked into
	grepMax      = 64 << 20 // of all files of a call
	lineMax      = 500      // bytes of a line that is shown
	pieceMax     = 64 << 10 // bytes of a line that are looked at together
)

// A search visits the files below a folder, in the order of names. It leaves
// out what is too much, and what the policy refuses.
type search struct {
	place
	visit      func(name string, info storage.Info) error
	read       int  // entries of all folders
	incomplete bool // something was too much
	refused    int  // files and folders
}

// admitted says whether the policy lets the search look into name, and counts
// what it refuses.
func (s *search) admitted(name string) bool {
	if s.admits(name) {
		return true
	}
	s.refused++
	return false
}

func (s *search) walk(ctx context.Context, folder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(folder) > pathMax || s.read >= visitMax {
		s.incomplete = true
		return nil
	}
	list, more, err := s.store.List(ctx, folder, visitMax-s.read)
	if err != nil {
		return err
	}
	s.read += len(list)
	s.incomplete = s.incomplete || more
	for _, e := range list {
		name := path.Join(folder, e.Name)
		if e.Kind != storage.Folder {
			err = s.visit(name, e)
		} else if !s.admitted(name) {
			continue
		} else if err = s.walk(ctx, name); err != nil && ctx.Err() == nil && err != fs.SkipAll {
			s.incomplete, err = true, nil // it cannot be read, or has gone
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// from walks from a folder, or visits the one file that name is.
func (s *search) from(ctx context.Context, name string) error {
	info, err := s.store.Stat(ctx, name)
	if err != nil {
		return err
	}
	switch info.Kind {
	case storage.Folder:
		err = s.walk(ctx, name)
	case storage.Link:
		return at(name, errors.New("is a symbolic link: search where it leads"))
	default:
		err = s.visit(name, info)
	}
	if err == fs.SkipAll {
		return nil
	}
	return err
}

type globArgs struct {
	target
	Pattern string `json:"pattern"`
	Limit   *int64 `json:"limit"`
}

// clean refuses a pattern that could lead out of the workspace as it does a path.
func (a *globArgs) clean() error {
	if err := a.target.clean(); err != nil {
		return err
	}
	_, err := parseGlob(a.Pattern)
	return err
}

type globbed struct {
	done
	Paths     []string `json:"paths"`
	Truncated bool     `json:"truncated"`
	Refused   int      `json:"refused,omitempty"` // folders, by the policy
}

func fsGlob(ctx context.Context, in place, a globArgs) (*result, error) {
	limit, err := bounds(0, a.Limit, listDefault, listMax)
	if err != nil {
		return nil, err
	}
	g, err := parseGlob(a.Pattern)
	if err != nil {
		return nil, err
	}
	found := globbed{done: success, Paths: []string{}}
	s := &search{place: in, visit: func(name string, info storage.Info) error {
		switch {
		case !g.matches(below(a.Path, name)):
			return nil
		case int64(len(found.Paths)) == limit:
			found.Truncated = true
			return fs.SkipAll
		}
		found.Paths = append(found.Paths, name)
		return nil
	}}
	if err := s.from(ctx, a.Path); err != nil {
		return nil, err
	}
	found.Truncated, found.Refused = found.Truncated || s.incomplete, s.refused
	var names []string
	for _, p := range found.Paths {
		names = append(names, quote(p))
	}
	return &result{Content: []any{lines(names, found.Truncated, s.refused, 0)}, Structured: found}, nil
}

// below returns the name of a file as it is from a folder on.
func below(folder, name string) string {
	if rest, ok := strings.CutPrefix(name, folder+"/"); ok {
		return rest
	}
	return name
}

// lines are what was found, for people and models.
func lines(found []string, truncated bool, refused, large int) textBlock {
	switch {
	case truncated:
		found = append(found, "[there is more: ask for less]")
	case len(found) == 0:
		found = append(found, "[nothing]")
	}
	return text("%s\n%s", strings.Join(found, "\n"), leftOut("the policy refuses it", refused)+leftOut("it is over 4 MiB", large))
}

// leftOut tells of what a search did not look into, and why; it is "" if there is none.
func leftOut(why string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("[left out, as %s: %d]\n", why, n)
}

type grepArgs struct {
	target
	Pattern    string `json:"pattern"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	Limit      *int64 `json:"limit"`
}

func (a *grepArgs) clean() error {
	if err := a.target.clean(); err != nil || a.Glob == "" {
		return err
	}
	_, err := parseGlob(a.Glob)
	return err
}

func (a *grepArgs) regexp() (*regexp.Regexp, error) {
	switch {
	case a.Pattern == "":
		return nil, fmt.Errorf("pattern is missing")
	case len(a.Pattern) > patternMax:
		return nil, fmt.Errorf("pattern of %d bytes: at most %d", len(a.Pattern), patternMax)
	}
	pattern := a.Pattern
	if a.IgnoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if program, err := syntax.Compile(tree.Simplify()); err != nil || len(program.Inst) > programMax {
		return nil, fmt.Errorf("pattern is too large: make it simpler, with smaller numbers in {}")
	}
	return regexp.Compile(pattern)
}

type match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type grepped struct {
	done
	Matches   []match `json:"matches"`
	Files     int     `json:"files_searched"`
	Truncated bool    `json:"truncated"`
	Refused   int     `json:"refused,omitempty"`   // files and folders, by the policy
	Large     int     `json:"too_large,omitempty"` // files that were not looked into

	re    *regexp.Regexp
	limit int64
	bytes int64
}

func fsGrep(ctx context.Context, in place, a grepArgs) (*result, error) {
	limit, err := bounds(0, a.Limit, foundDefault, foundMax)
	if err != nil {
		return nil, err
	}
	g := &grepped{done: success, Matches: []match{}, limit: limit}
	if g.re, err = a.regexp(); err != nil {
		return nil, err
	}
	var only glob
	if a.Glob != "" {
		if only, err = parseGlob(a.Glob); err != nil {
			return nil, err
		}
	}
	var s *search
	s = &search{place: in, visit: func(name string, info storage.Info) error {
		if info.Kind != storage.File || only != nil && !only.matches(below(a.Path, name)) || !s.admitted(name) {
			return nil
		}
		return g.file(ctx, in.store, name, info.Size)
	}}
	if err := s.from(ctx, a.Path); err != nil {
		return nil, err
	}
	g.Truncated, g.Refused = g.Truncated || s.incomplete, s.refused
	var found []string
	for _, m := range g.Matches {
		found = append(found, fmt.Sprintf("%s:%d:%s", quote(m.Path), m.Line, m.Text))
	}
	return &result{Content: []any{lines(found, g.Truncated, s.refused, g.Large)}, Structured: g, bytes: g.bytes}, nil
}

// matches looks at a line, at a long one in pieces: what goes over the border of
// two is not found.
func (g *grepped) matches(ctx context.Context, line []byte) (bool, error) {
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		piece := line[:min(len(line), pieceMax)]
		line = line[len(piece):]
		if found := g.re.Match(piece); found || len(line) == 0 {
			return found, nil
		}
	}
}

// file looks into a file. One that cannot be read, is too large, or has a NUL
// in it and is no text, is passed over.
func (g *grepped) file(ctx context.Context, store storage.Storage, name string, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case size > grepFile:
		g.Large++
		return nil
	case g.bytes+size > grepMax:
		g.Truncated = true
		return nil
	}
	data, _, err := store.Read(ctx, name, 0, grepFile)
	if err != nil || bytes.IndexByte(data, 0) >= 0 {
		return ctx.Err()
	}
	g.Files++
	g.bytes += int64(len(data))
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		found, err := g.matches(ctx, line)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if int64(len(g.Matches)) == g.limit {
			g.Truncated = true
			return fs.SkipAll
		}
		if len(line) > lineMax {
			line = append(wholeRunes(line[:lineMax:lineMax]), "…"...)
		}
		g.Matches = append(g.Matches, match{name, n, strings.ToValidUTF8(string(line), "\uFFFD")})
	}
	return nil
}
