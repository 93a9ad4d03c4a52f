package tree

import (
	"context"

	"hutch/fs"
)

// A stream is an open file on which a conversation is written and read. It has
// no places: writes follow one another, and a read returns what came after the
// last one, whatever offset a client counts on a file that it does both with.
type stream struct {
	fs.Handle
	turn chan struct{} // holds a token: whoever has it reads, and uses at
	at   int64         // how much was read
}

func (s *stream) Stream() bool { return true }

func (s *stream) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	n, err := s.Handle.ReadAt(ctx, p, s.at)
	s.at += int64(n)
	return n, err
}
