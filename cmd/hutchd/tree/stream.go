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
	turn turn  // guards at, and is held while something is read
	at   int64 // how much was read
}

func (s *stream) Stream() bool { return true }

func (s *stream) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if err := s.turn.take(ctx); err != nil {
		return 0, err
	}
	defer s.turn.give()
	n, err := s.Handle.ReadAt(ctx, p, s.at)
	s.at += int64(n)
	return n, err
}
