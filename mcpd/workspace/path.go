package workspace

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"hutch/mcpd/dotdot"
)

// A Traversal is the error of a path that could lead out of the workspace, or
// that leads out of it by a link.
type Traversal struct {
	path    string
	link    string // where that leads; "": the path itself does
	outside string // what is plainly wrong with the path; "": somebody may read a ".." in it
}

func (t *Traversal) Error() string {
	if t.outside != "" {
		return fmt.Sprintf("path %.200q: %s", t.path, t.outside)
	}
	if t.link != "" {
		return fmt.Sprintf("path %.200q leads out of the workspace by a link to %.200q, and only relative links that stay in it are followed", t.path, t.link)
	}
	return fmt.Sprintf("\"..\" is not allowed, nor what can be read as that: path %.200q", t.path)
}

// checkStrict refuses a path with a ".." in it, in whatever form someone behind
// us could take for one, and one that no system takes.
func checkStrict(p string) error {
	if len(p) > lookMax {
		return fmt.Errorf("path of %d bytes: at most %d", len(p), pathMax)
	}
	if dotdot.InAny(p) {
		return &Traversal{path: p}
	}
	if len(p) > pathMax {
		return fmt.Errorf("path of %d bytes: at most %d", len(p), pathMax)
	}
	return nil
}

// lookMax is the length of the longest path that is looked into.
const lookMax = 64 << 10

// A glob is a pattern for paths: * and ? and [a-z] within a part of them, and **
// for any number of parts.
type glob []string

// parseGlob reads a pattern, relative to the workspace or below /workspace.
func parseGlob(pattern string) (glob, error) {
	if pattern == "" {
		return nil, errors.New("pattern is missing")
	}
	t := target{Path: pattern, strict: true}
	if err := t.clean(); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	parts := strings.Split(t.Path, "/")
	for _, p := range parts {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("pattern %.200q: %w", pattern, err)
		}
	}
	return parts, nil
}

// matches tells whether a path is what the glob says. It looks at each part of
// it once for each part of the pattern, whatever these are.
func (g glob) matches(name string) bool {
	on := make([]bool, len(g)+1) // on[i]: the first i parts of g match what was seen
	on[0] = true
	g.skip(on)
	for part := range strings.SplitSeq(name, "/") {
		next := make([]bool, len(on))
		for i, p := range g {
			if !on[i] {
				continue
			}
			if p == "**" {
				next[i] = true
			} else if ok, _ := path.Match(p, part); ok {
				next[i+1] = true
			}
		}
		on = next
		g.skip(on)
	}
	return on[len(g)]
}

// skip passes over each ** that was reached: it also stands for nothing.
func (g glob) skip(on []bool) {
	for i, p := range g {
		if on[i] && p == "**" {
			on[i+1] = true
		}
	}
}
