package ninep

import (
	"fmt"
	"syscall"
)

// What fids keep in memory: the way to their files, whose every directory may
// know its own way, and the entries of directories that are being read. A
// client says how long these are.
const (
	maxKept = 128 << 20 // bytes, of all connections

	perPlace    = 128 // bytes that a place takes besides the way to it
	perEntry    = 64  // an entry besides its name
	perDescribe = 224 // one that is described
)

// keep notes that n bytes more are kept, if there is room for any.
func (s *Server) keep(n int) error {
	if before := s.kept.Add(int64(n)) - int64(n); before >= maxKept {
		s.giveUp(n)
		return fmt.Errorf("%w: what fids of all connections keep takes %d MiB", syscall.ENFILE, before>>20)
	}
	return nil
}

// giveUp notes that n bytes are not kept any more.
func (s *Server) giveUp(n int) { s.kept.Add(-int64(n)) }

// way notes how long the way to p is, and what is kept of it. The length of a
// place with nothing above it is that of the name that the client attached to.
func (p *place) way() {
	if p.up != nil {
		p.length = p.up.length + len(p.name) + 1
		p.kept = p.up.kept
	}
	p.kept += perPlace + p.length
}

// keepAfter returns what is kept of the place that names lead to from p.
func (p *place) keepAfter(names []string) int {
	length, kept := p.length, p.kept
	for _, name := range names {
		length += len(name) + 1
		kept += perPlace + length
	}
	return kept
}

// put gives f a place, or another one, if there is one; mu is held.
func (s *session) put(f *fid, at *place) {
	if at != nil && !f.shut {
		s.srv.kept.Add(int64(at.kept - f.kept))
		f.place, f.kept = at, at.kept
	}
}

// weigh notes how much the listing keeps. One for which there is no room is
// thrown away.
func (l *listing) weigh(s *Server) error {
	n := 0
	for _, e := range l.entries {
		n += perEntry + len(e.Name)
	}
	for _, e := range l.plus {
		n += perDescribe + len(e.Name) + len(e.Target)
	}
	l.forget(s)
	if err := s.keep(n); err != nil {
		l.made, l.entries, l.plus = false, nil, nil
		return err
	}
	l.kept = n
	return nil
}

// forget notes that the listing keeps nothing.
func (l *listing) forget(s *Server) {
	s.giveUp(l.kept)
	l.kept = 0
}

// forgetKept notes that f, which is shut, keeps nothing.
func (s *session) forgetKept(f *fid) {
	if f.open != nil && f.open.list != nil {
		f.open.list.forget(s.srv)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv.giveUp(f.kept)
	f.kept, f.shut = 0, true
}
