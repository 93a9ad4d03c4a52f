package fs

import (
	"path"
	"strings"
)

// Links tell what the symbolic links below a directory mean, which another
// machine wrote: their texts are paths of that machine. Who follows them here
// by the text alone, as a kernel does, would come to files of this machine.
type Links struct {
	At     string  // what that machine calls the directory
	Places []Place // its directories, and where they are; the innermost first
}

// A Place is a directory of the other machine, and the way to it here from
// the directory that has the Links.
type Place struct{ There, Here string }

// A Linked is a directory Node whose links, at all depths, are another
// machine's; nil if they are this one's.
type Linked interface{ Links() *Links }

// Served returns the text that leads here where text leads there. The link is
// in the directory dir, a path below top, which has the Links and is an
// absolute path. It is the link's own text if that cannot lead out of top;
// else an absolute path without "..", which means the same wherever the link's
// directory is moved to meanwhile; and none if there is no such place.
func (l *Links) Served(top, dir, text string) string {
	if !path.IsAbs(text) {
		if Rises(text) <= depth(dir) {
			return text
		}
		text = path.Join(l.At, dir, text)
	}
	text = path.Clean(text)
	for _, p := range l.Places {
		if rest, ok := below(text, p.There); ok {
			return path.Join(top, p.Here, rest)
		}
	}
	return ""
}

// Stored returns the text for a link that is to lead to target: Served undone,
// so that a link that is copied by its text stays the other machine's.
func (l *Links) Stored(top, target string) string {
	if path.Clean(target) != target {
		return target
	}
	for _, p := range l.Places {
		if rest, ok := below(target, path.Join(top, p.Here)); ok {
			return path.Join(p.There, rest)
		}
	}
	return target
}

// unbounded is more than any directory is deep.
const unbounded = 1 << 30

// Rises returns how many directories a relative text goes up at most. One
// that goes up behind a name can come out anywhere: the name may be a link.
func Rises(text string) int {
	up, named := 0, false
	for e := range strings.SplitSeq(text, "/") {
		switch {
		case e == "" || e == ".":
		case e != "..":
			named = true
		case named:
			return unbounded
		default:
			up++
		}
	}
	return up
}

// depth returns how many directories a clean relative path goes down.
func depth(dir string) int {
	if dir == "" {
		return 0
	}
	return strings.Count(dir, "/") + 1
}

// below returns what follows dir in the clean path p.
func below(p, dir string) (string, bool) {
	if dir == "/" {
		return p, true
	}
	rest, ok := strings.CutPrefix(p, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}
