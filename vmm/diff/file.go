package diff

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
)

// errMoved is returned where another kind of file has taken a name meanwhile.
var errMoved = errors.New("file was replaced while it was read")

// open opens a regular file. A pipe that took its place holds nobody up.
func open(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(errMoved, err)
	}
	return f, nil
}

var buffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// equal says whether two regular files have the same in them.
func (c *comparison) equal(inA, inB string, a, b fs.FileInfo) (bool, error) {
	if a.Size() != b.Size() {
		return false, nil
	}
	if os.SameFile(a, b) {
		return true, nil
	}
	f, err := open(c.a, inA)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, err := open(c.b, inB)
	if err != nil {
		return false, err
	}
	defer g.Close()
	p, q := buffers.Get().(*[256 << 10]byte), buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(p)
	defer buffers.Put(q)
	for c.ctx.Err() == nil {
		n, err := io.ReadFull(f, p[:])
		m, gerr := io.ReadFull(g, q[:])
		switch {
		case !bytes.Equal(p[:n], q[:m]):
			return false, nil
		case ended(err) && ended(gerr):
			return true, nil
		case err != nil && !ended(err):
			return false, err
		case gerr != nil && !ended(gerr):
			return false, gerr
		}
	}
	return false, context.Cause(c.ctx)
}

func ended(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// matchRenames makes one difference of a removed file and an added one with
// the same contents, which are not empty. Where there are several, they are
// matched in the order of their paths.
func (c *comparison) matchRenames() error {
	lost := make(map[int64][]int) // by size: of lines
	for i, l := range c.lines {
		if l.verb == "removed" && l.size > 0 {
			lost[l.size] = append(lost[l.size], i)
		}
	}
	sums := make(map[int]string)
	for i, l := range c.lines {
		if l.verb != "added" || l.size <= 0 || len(lost[l.size]) == 0 {
			continue
		}
		sum, err := c.sum(c.b, l.path)
		if err != nil {
			return err
		}
		for at, j := range lost[l.size] {
			if sums[j] == "" {
				if sums[j], err = c.sum(c.a, c.lines[j].path); err != nil {
					return err
				}
			}
			if sum != "" && sums[j] == sum {
				c.lines[j].verb, c.lines[j].to = "renamed", l.path
				lost[l.size] = slices.Delete(lost[l.size], at, at+1)
				c.lines[i].verb = ""
				break
			}
		}
	}
	c.lines = slices.DeleteFunc(c.lines, func(l line) bool { return l.verb == "" })
	return nil
}

// sum returns a hash of what is in a file, and "" if it cannot be read.
func (c *comparison) sum(root *os.Root, name string) (string, error) {
	f, err := open(root, name)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	p := buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(p)
	h := sha256.New()
	for c.ctx.Err() == nil {
		n, err := f.Read(p[:])
		h.Write(p[:n])
		if err == io.EOF {
			return string(h.Sum(nil)), nil
		}
		if err != nil {
			return "", nil
		}
	}
	return "", context.Cause(c.ctx)
}
