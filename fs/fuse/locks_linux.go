package fuse

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A lock that a client has on a file of a host folder is the kernel's, as it
// should be: it tells us nothing of it. Whoever else uses the folder has locks
// of its own. So while there are clients that write there, the kernel's list of
// locks is looked at now and then, and the owner of the tree told what is locked.
type writers struct {
	mu    sync.Mutex         // guards what follows
	files map[*hostFile]bool // open for writing: whether its lock was told of
	watch bool               // somebody watches
}

// A HostFile is a file of a host folder.
type HostFile struct {
	Path     string // in the tree
	Dev, Ino uint64 // on the host
}

// watching is how often the list is looked at.
const watching = time.Second

// writes counts h among the files that are open for writing.
func (s *Server) writes(h *hostFile) {
	if s.opt.Locked == nil {
		return
	}
	s.writers.mu.Lock()
	defer s.writers.mu.Unlock()
	if s.writers.files == nil {
		s.writers.files = map[*hostFile]bool{}
	}
	s.writers.files[h] = false
	if !s.writers.watch {
		s.writers.watch = s.call(s.watchLocks)
	}
}

func (w *writers) drop(h *hostFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.files, h)
}

// watchLocks ends when no file is open for writing any more.
func (s *Server) watchLocks() {
	tick := time.NewTicker(watching)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		list, _ := os.ReadFile("/proc/locks")
		found, more := s.writers.locked(lockedFiles(string(list), s.number))
		for _, h := range found {
			if p, ok := between(s.top.EmbeddedInode(), h.of.EmbeddedInode()); ok {
				s.opt.Locked(HostFile{Path: path.Clean(p), Dev: h.of.id.dev, Ino: h.of.id.ino})
			}
		}
		if !more {
			return
		}
	}
}

// locked returns the files with those numbers that have not been told of, and
// whether to look again.
func (w *writers) locked(numbers map[uint64]bool) (found []*hostFile, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h, told := range w.files {
		if !told && numbers[h.of.StableAttr().Ino] {
			w.files[h] = true
			found = append(found, h)
		}
	}
	w.watch = len(w.files) > 0
	return found, w.watch
}

// lockedFiles returns the numbers of files that a list like /proc/locks has
// locks of on a device, which mountinfo writes with decimal numbers.
func lockedFiles(list, device string) map[uint64]bool {
	var major, minor uint64
	fmt.Sscanf(device, "%d:%d", &major, &minor)
	files := map[uint64]bool{}
	for line := range strings.Lines(list) {
		for _, word := range strings.Fields(line) {
			part := strings.Split(word, ":")
			if len(part) != 3 {
				continue
			}
			ma, err1 := strconv.ParseUint(part[0], 16, 32)
			mi, err2 := strconv.ParseUint(part[1], 16, 32)
			ino, err3 := strconv.ParseUint(part[2], 10, 64)
			if err1 == nil && err2 == nil && err3 == nil && ma == major && mi == minor {
				files[ino] = true
			}
		}
	}
	return files
}
