// Package diff tells how two folders differ: by what is in their files, not
// by size and time. No link is followed, and no path leads out of a folder,
// also when somebody changes it meanwhile.
//
// Each difference is a line:
//
//	added PATH           is in the second folder only
//	removed PATH         is in the first only
//	changed PATH         has other contents, leads elsewhere, or is another kind of file
//	mode PATH OLD NEW    has other permissions, in octal
//	owner PATH OLD NEW   belongs to another UID:GID
//	renamed OLD NEW      was removed, and the same contents were added elsewhere
//	unreadable PATH      cannot be compared
//
// Folders end in a slash. A path with blanks, quotes, control characters or
// bytes that are no UTF-8 is quoted as a string of C or Go is. What an
// overlay's upper layer notes as removed is not there.
package diff

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// Folders returns the differences from the folder a to the folder b, sorted
// by path, each path after prefix. Where b notes that a file of a lower layer
// is removed, it was removed.
func Folders(ctx context.Context, a, b, prefix string) (string, error) {
	var sides [2]*os.Root
	for i, dir := range []string{a, b} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", err
		}
		defer root.Close()
		sides[i] = root
	}
	c := &comparison{ctx: ctx, a: sides[0], b: sides[1]}
	if err := c.folder(".", true, true); err != nil {
		return "", err
	}
	if err := c.matchRenames(); err != nil {
		return "", err
	}
	slices.SortStableFunc(c.lines, func(x, y line) int { return strings.Compare(x.path, y.path) })
	var text strings.Builder
	for _, l := range c.lines {
		l.print(&text, prefix)
	}
	return text.String(), nil
}

// A comparison is one under way.
type comparison struct {
	ctx   context.Context
	a, b  *os.Root
	lines []line
}

// A line is a difference.
type line struct {
	verb  string
	path  string // a folder's ends in a slash
	to    string // of a file that was renamed
	words string // what else there is to say
	size  int64  // of a regular file; -1 of all else
}

func (l line) print(w *strings.Builder, prefix string) {
	fmt.Fprintf(w, "%s %s", l.verb, Quote(prefix+l.path))
	if l.to != "" {
		fmt.Fprintf(w, " %s", Quote(prefix+l.to))
	}
	fmt.Fprintf(w, "%s\n", l.words)
}

// Quote returns a path as one word.
func Quote(path string) string {
	plain := func(r rune) bool {
		return r != unicode.ReplacementChar && !strings.ContainsRune(`"'\ `, r) && strconv.IsPrint(r)
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return strconv.Quote(path)
}

func (c *comparison) tell(verb, name string, st fs.FileInfo, words string) {
	l := line{verb: verb, path: name, words: words, size: -1}
	switch {
	case st == nil:
	case st.IsDir():
		l.path += "/"
	case st.Mode().IsRegular():
		l.size = st.Size()
	}
	c.lines = append(c.lines, l)
}

// folder compares the folder called name, of which one side may be missing.
func (c *comparison) folder(name string, inA, inB bool) error {
	names := make(map[string]bool)
	for _, side := range []struct {
		root  *os.Root
		there bool
	}{{c.a, inA}, {c.b, inB}} {
		if !side.there {
			continue
		}
		list, err := readNames(side.root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile
		case err != nil:
			c.tell("unreadable", name, nil, "")
			return nil
		}
		for _, n := range list {
			names[n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		if err := c.entry(path.Join(name, n), inA, inB); err != nil {
			return err
		}
	}
	return nil
}

func readNames(root *os.Root, name string) ([]string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// look returns what is at name; nil if nothing is.
func look(root *os.Root, name string, there bool) (st fs.FileInfo, whiteout bool, err error) {
	if !there {
		return nil, false, nil
	}
	st, err = root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && st.Mode()&fs.ModeCharDevice != 0 && s.Rdev == 0 {
		return nil, true, nil
	}
	return st, false, nil
}

// entry compares what is called name on both sides.
func (c *comparison) entry(name string, inA, inB bool) error {
	a, hidA, aerr := look(c.a, name, inA)
	b, hidB, berr := look(c.b, name, inB)
	switch {
	case aerr != nil || berr != nil:
		c.tell("unreadable", name, nil, "")
		return nil
	case a == nil && b == nil:
		if hidB && !hidA {
			c.tell("removed", name, nil, "")
		}
		return nil
	case a == nil:
		c.tell("added", name, b, "")
		return c.below(name, nil, b)
	case b == nil:
		c.tell("removed", name, a, "")
		return c.below(name, a, nil)
	case a.Mode().Type() != b.Mode().Type():
		c.tell("changed", name, nil, "")
		return c.below(name, a, b)
	}
	if err := c.contents(name, a, b); err != nil {
		return err
	}
	if x, y := bits(a), bits(b); x != y && a.Mode().Type() != fs.ModeSymlink {
		c.tell("mode", name, a, fmt.Sprintf(" %04o %04o", x, y))
	}
	if x, y := owner(a), owner(b); x != y {
		c.tell("owner", name, a, " "+x+" "+y)
	}
	return c.below(name, a, b)
}

// below goes on in what is a folder.
func (c *comparison) below(name string, a, b fs.FileInfo) error {
	inA, inB := a != nil && a.IsDir(), b != nil && b.IsDir()
	if !inA && !inB {
		return nil
	}
	return c.folder(name, inA, inB)
}

// contents tells if two files of the same kind have not the same in them.
func (c *comparison) contents(name string, a, b fs.FileInfo) error {
	same := true
	var err error
	switch a.Mode().Type() {
	case 0:
		same, err = c.equal(name, name, a, b)
	case fs.ModeSymlink:
		x, xerr := c.a.Readlink(name)
		y, yerr := c.b.Readlink(name)
		same, err = x == y, errors.Join(xerr, yerr)
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		x, xok := a.Sys().(*syscall.Stat_t)
		y, yok := b.Sys().(*syscall.Stat_t)
		same = !xok || !yok || x.Rdev == y.Rdev
	}
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMoved), err == nil && !same:
		c.tell("changed", name, a, "")
	case err != nil:
		c.tell("unreadable", name, a, "")
	}
	return nil
}

func bits(st fs.FileInfo) uint32 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint32(s.Mode) & 0o7777
	}
	return uint32(st.Mode().Perm())
}

func owner(st fs.FileInfo) string {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", s.Uid, s.Gid)
	}
	return ""
}
