package gateway

import (
	"os"
	"path/filepath"
	"sync"

	"hutch/fs/folder"
)

// A scratch is the folder where editors keep their files beside a config while they
// edit it.
type scratch struct {
	mu     sync.Mutex // guards what follows
	folder *folder.Folder
	closed bool
}

// scratchFolder is its name in the folder of whose it is.
const scratchFolder = "edit"

// Scratch returns that folder, which is there until Close.
func (g *Gateway) Scratch() (*folder.Folder, error) {
	s := &g.scratch
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, g.gone()
	}
	if s.folder != nil {
		return s.folder, nil
	}
	dir := filepath.Join(g.cfg.Dir, scratchFolder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	s.folder, err = folder.Open(dir, scratchFolder)
	return s.folder, err
}

func (s *scratch) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.folder != nil {
		s.folder.Close()
	}
}
