package tree

import (
	"strings"
)

// Locked is told of a file, by its path in the tree and its number on the
// host, that a client of the host writes and has locked. A guest that writes
// it, too, knows nothing of the lock.
func (s *Server) Locked(name string, dev, ino uint64) {
	part := strings.SplitN(name, "/", 4)
	if len(part) < 4 || part[0] != "vm" || part[2] != "work" {
		return
	}
	if v, err := s.Lookup(part[1]); err == nil {
		v.Locked(part[3], dev, ino)
	}
}
