package tree

import (
	"fmt"
	"strings"

	"hutch/vmm/process"
)

// Locked is told of a file, by its path in the tree and its number on the
// host, that a client of the host writes and has locked. A guest that writes
// it, too, knows nothing of the lock.
func (s *Server) Locked(name string, dev, ino uint64) {
	part := strings.SplitN(name, "/", 4)
	if len(part) < 4 || part[0] != "vm" || part[2] != "work" {
		return
	}
	v := s.named(part[1])
	if v == nil {
		return
	}
	for _, pid := range v.PIDs() {
		if process.Writes(pid, dev, ino) {
			v.trouble("locks", fmt.Sprintf("work/%s is written here, under a lock, and in the guest, which does not see it", part[3]))
			return
		}
	}
}
