package fuse

import (
	"path"
	"strings"
)

// Gone is told that the file at p in the tree went, or is another now, by
// other hands than the kernel's. The kernel would keep what it knew of it, and
// we what is open for that, until it needs the room.
func (s *Server) Gone(p string) {
	// Not by the caller: it may answer a request for the same directory, which
	// the kernel has locked until then.
	s.call(func() { s.forget(p) })
}

// call does f on a goroutine that Close waits for, unless it is too late.
func (s *Server) call(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.calls.Go(f)
	}
	return !s.closing
}

// forget has the kernel drop the entry p, with all below it that nobody uses.
func (s *Server) forget(p string) {
	dir, name := path.Split(p)
	in := s.top.EmbeddedInode()
	for e := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if in != nil && e != "" {
			in = in.GetChild(e)
		}
	}
	if in != nil { // else the kernel knows not even the directory
		in.NotifyEntry(name)
	}
}
