package fuse

import (
	"hash/maphash"
	"path"
	"strings"
	"sync/atomic"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"

	"hutch/fs"
)

// The kernel follows a link by the text that it reads, from where it has the
// link's directory, and goes up from there without a word to us. So no text is
// served that goes up further than the link's directory is deep, and what the
// depth is counted by stays: a directory and a link have an inode for each
// place where they were found. If the same inode came up at two places, by a
// rename that someone else made or by a hard link, the kernel would move what
// it has, or read the text of the one at the other.

// A foreign directory is one whose links are another machine's.
type foreign struct {
	links *fs.Links
	top   *gofs.Inode // the directory
}

// foreignOf returns what the links of n mean, which top serves; up is what
// those of the directory above mean.
func foreignOf(n fs.Node, top *gofs.Inode, up *foreign) *foreign {
	if l, ok := n.(fs.Linked); ok && l.Links() != nil {
		return &foreign{l.Links(), top}
	}
	return up
}

// nowhere is what a link leads to that leads to nothing here.
const nowhere = ".elsewhere"

const maxPath = 4096 // of the kernel, with a NUL at the end

// link returns what is served for the text of a link in the directory dir.
func (s *Server) link(dir *gofs.Inode, f *foreign, text string) string {
	if f == nil || s.opt.RawLinks {
		return text
	}
	to := ""
	if below, ok := between(f.top, dir); ok || path.IsAbs(text) || fs.Rises(text) == 0 {
		to = f.links.Served(s.above(f.top), below, text)
	}
	if to == "" || len(to) >= maxPath || strings.Contains(to, "\x00") {
		to = path.Join(s.dir, nowhere)
	}
	return to
}

// stored returns the text to store for a link that a client makes.
func (s *Server) stored(f *foreign, target string) string {
	if f == nil || s.opt.RawLinks {
		return target
	}
	return f.links.Stored(s.above(f.top), target)
}

// above returns the absolute path of a directory in the tree.
func (s *Server) above(dir *gofs.Inode) string {
	p, ok := between(dir.Root(), dir)
	if !ok {
		return path.Join(s.dir, nowhere)
	}
	return path.Join(s.dir, p)
}

// between returns the path of dir below top, if it is known to be there: one
// that is gone may be nil.
func between(top, dir *gofs.Inode) (string, bool) {
	p := ""
	for dir != nil && dir != top {
		name, up := dir.Parent()
		p, dir = path.Join(name, p), up
	}
	return p, dir == top
}

// places tell apart the places where a directory or a link was found.
type places struct {
	seed  maphash.Seed
	moves atomic.Uint64 // made by clients: the kernel moves its inode along
}

// of returns the generation of the inode that is called name in dir.
func (p *places) of(dir *gofs.Inode, name string, born uint64) uint64 {
	return maphash.Comparable(p.seed, struct {
		dir         gofs.StableAttr
		name        string
		born, moves uint64
	}{dir.StableAttr(), name, born, p.moves.Load()})
}

// placed says whether a file of that kind has an inode for each place.
func placed(kind uint32) bool { return kind == syscall.S_IFDIR || kind == syscall.S_IFLNK }
