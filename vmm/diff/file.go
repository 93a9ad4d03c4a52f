package diff

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"hutch/fs/sparse"
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
	return sparse.Equal(f, g, a.Size(), func() error { return c.Rest(c.ctx) })
}

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
	same := make(map[string][]int) // of lost, by hash, which the size is part of
	for i, l := range c.lines {
		if l.verb != "added" || l.size <= 0 || lost[l.size] == nil {
			continue
		}
		for _, j := range lost[l.size] {
			sum, err := c.sum(c.a, c.lines[j].path)
			if err != nil {
				return err
			}
			same[sum] = append(same[sum], j)
		}
		lost[l.size] = []int{} // which have a hash now
		sum, err := c.sum(c.b, l.path)
		if err != nil {
			return err
		}
		if from := same[sum]; sum != "" && len(from) > 0 {
			same[sum] = from[1:]
			c.lines[from[0]].verb, c.lines[from[0]].to = "renamed", l.path
			c.lines[i].verb = ""
		}
	}
	c.lines = slices.DeleteFunc(c.lines, func(l line) bool { return l.verb == "" })
	return nil
}

// page is the unit of a sum: a power of two.
const page = 4 << 10

var zeros [page]byte

// sum returns a hash of what is in a file, and "" if it cannot be read. It is
// of the size and of the pages that are not all zeros, with their offsets:
// the same wherever the file has holes.
func (c *comparison) sum(root *os.Root, name string) (string, error) {
	if err := c.Rest(c.ctx); err != nil {
		return "", err
	}
	f, err := open(root, name)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", nil
	}
	p := buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(p)
	x, h := sparse.Of(f, st.Size()), sha256.New()
	number(h, st.Size())
	for at := int64(0); at < st.Size(); {
		if err := c.Rest(c.ctx); err != nil {
			return "", err
		}
		begin, end := x.From(at)
		begin, end = begin&^(page-1), (end+page-1)&^(page-1)
		at = min(end, begin+int64(len(p)))
		n, err := f.ReadAt(p[:at-begin], begin)
		if err != nil && err != io.EOF {
			return "", nil
		}
		sumPages(h, p[:n], begin)
	}
	return string(h.Sum(nil)), nil
}

func sumPages(h hash.Hash, data []byte, off int64) {
	for part := range slices.Chunk(data, page) {
		if !bytes.Equal(part, zeros[:len(part)]) {
			number(h, off)
			h.Write(part)
		}
		off += page
	}
}

func number(h hash.Hash, n int64) { binary.Write(h, binary.BigEndian, n) }
