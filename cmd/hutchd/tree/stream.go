package tree

import (
	"context"
	"syscall"

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

// ends has a file that blocks end after what there is so far.
func ends(open func(call, int) (fs.Handle, error)) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		h, err := open(c, flags|syscall.O_NONBLOCK)
		if err != nil {
			return nil, err
		}
		return ending{h}, nil
	}
}

// An ending is an open file that would say "try again" at its end.
type ending struct{ fs.Handle }

func (ending) Stream() bool { return false }

func (h ending) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := h.Handle.ReadAt(ctx, p, off)
	if fs.Is(err, fs.ErrAgain) {
		err = nil
	}
	return n, err
}

// nothing is the text of a file that is only written: programs that edit a file read it
// first.
func nothing(call) (string, error) { return "", nil }
