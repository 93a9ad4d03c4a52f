package image

import (
	"context"
	"time"
)

// Wait waits until the image called name is not being filled any more.
func (s *Store) Wait(ctx context.Context, name string) {
	s.mu.Lock()
	j := s.jobs[name]
	s.mu.Unlock()
	if j != nil {
		j.wait(ctx)
	}
}

// Stall sets how long a registry may send nothing.
func (s *Store) Stall(limit time.Duration) { s.stall = limit }

// Limit sets what one image may have.
func (s *Store) Limit(bytes, entries int64) { s.maxBytes, s.maxEntries = bytes, entries }
