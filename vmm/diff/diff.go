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
//	unreadable PATH      cannot be compared, or lies deeper than paths can say
//
// Folders end in a slash. A path with blanks, quotes, control characters or
// bytes that are no UTF-8 is quoted as a string of C or Go is. What an
// overlay's upper layer notes as removed is not there.
package diff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"hutch/fs"
)

// Bounds hold back a comparison that somebody asked for who may ask for many.
type Bounds struct {
	// Rest is called again and again meanwhile. Its error ends the comparison.
	Rest func(context.Context) error
	// Most is how many bytes of names and differences it may remember; 0: any.
	Most int
}

// Folders returns the differences from the folder a to the folder b, sorted
// by path, each path after prefix. Where b notes that a file of a lower layer
// is removed, it was removed.
func (bounds Bounds) Folders(ctx context.Context, a, b, prefix string) (string, error) {
	if bounds.Rest == nil {
		bounds.Rest = context.Cause
	}
	var sides [2]*os.Root
	for i, dir := range []string{a, b} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", err
		}
		defer root.Close()
		sides[i] = root
	}
	c := &comparison{Bounds: bounds, ctx: ctx, a: sides[0], b: sides[1]}
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
	Bounds
	ctx   context.Context
	a, b  *os.Root
	lines []line
	held  int // bytes, see Most
}

// Beside their bytes, names and differences take about so many more.
const (
	perName = 64
	perLine = 192
)

// on says whether the comparison may go on.
func (c *comparison) on() error {
	if c.Most > 0 && c.held > c.Most {
		return fmt.Errorf("%w: too many differences, or files in a folder", fs.ErrTooLarge)
	}
	return c.Rest(c.ctx)
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

func (c *comparison) tell(verb, name string, st os.FileInfo, words string) {
	l := line{verb: verb, path: name, words: words, size: -1}
	switch {
	case st == nil:
	case st.IsDir():
		l.path += "/"
	case st.Mode().IsRegular():
		l.size = st.Size()
	}
	c.lines = append(c.lines, l)
	c.held += perLine + len(name) + len(words)
}

// folder compares the folder called name, of which one side may be missing.
func (c *comparison) folder(name string, inA, inB bool) error {
	names := make(map[string]bool)
	defer func() {
		for n := range names {
			c.held -= perName + len(n)
		}
	}()
	for _, side := range []struct {
		root  *os.Root
		there bool
	}{{c.a, inA}, {c.b, inB}} {
		if !side.there {
			continue
		}
		readable, err := c.names(side.root, name, names)
		if err != nil {
			return err
		}
		if !readable {
			c.tell("unreadable", name, nil, "")
			return nil
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if err := c.on(); err != nil {
			return err
		}
		if err := c.entry(path.Join(name, n), inA, inB); err != nil {
			return err
		}
	}
	return nil
}

// names adds those that a folder has to all.
func (c *comparison) names(root *os.Root, name string, all map[string]bool) (readable bool, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return errors.Is(err, os.ErrNotExist), nil // gone meanwhile
	}
	defer f.Close()
	for {
		if err := c.on(); err != nil {
			return false, err
		}
		list, err := f.Readdirnames(1024)
		for _, n := range list {
			if !all[n] {
				all[n] = true
				c.held += perName + len(n)
			}
		}
		if err != nil {
			return err == io.EOF || errors.Is(err, os.ErrNotExist), nil
		}
	}
}

// look returns what is at name; nil if nothing is.
func look(root *os.Root, name string, there bool) (st os.FileInfo, whiteout bool, err error) {
	if !there {
		return nil, false, nil
	}
	st, err = root.Lstat(name)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && st.Mode()&os.ModeCharDevice != 0 && s.Rdev == 0 {
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
	if x, y := bits(a), bits(b); x != y && a.Mode().Type() != os.ModeSymlink {
		c.tell("mode", name, a, fmt.Sprintf(" %04o %04o", x, y))
	}
	if x, y := owner(a), owner(b); x != y {
		c.tell("owner", name, a, " "+x+" "+y)
	}
	return c.below(name, a, b)
}

// below goes on in what is a folder.
func (c *comparison) below(name string, a, b os.FileInfo) error {
	inA, inB := a != nil && a.IsDir(), b != nil && b.IsDir()
	if !inA && !inB {
		return nil
	}
	if len(name) > pathMax {
		st := a
		if !inA {
			st = b
		}
		c.tell("unreadable", name, st, "")
		return nil
	}
	return c.folder(name, inA, inB)
}

// pathMax is the longest path of a folder that is looked into: no program
// could open what it says of one, and its lines would fill the memory.
const pathMax = 4096

// contents tells if two files of the same kind have not the same in them.
func (c *comparison) contents(name string, a, b os.FileInfo) error {
	same := true
	var err error
	switch a.Mode().Type() {
	case 0:
		same, err = c.equal(name, name, a, b)
	case os.ModeSymlink:
		x, xerr := c.a.Readlink(name)
		y, yerr := c.b.Readlink(name)
		same, err = x == y, errors.Join(xerr, yerr)
	case os.ModeDevice, os.ModeDevice | os.ModeCharDevice:
		x, xok := a.Sys().(*syscall.Stat_t)
		y, yok := b.Sys().(*syscall.Stat_t)
		same = !xok || !yok || x.Rdev == y.Rdev
	}
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, errMoved), err == nil && !same:
		c.tell("changed", name, a, "")
	case err != nil:
		c.tell("unreadable", name, a, "")
	}
	return nil
}

func bits(st os.FileInfo) uint32 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint32(s.Mode) & 0o7777
	}
	return uint32(st.Mode().Perm())
}

func owner(st os.FileInfo) string {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", s.Uid, s.Gid)
	}
	return ""
}
