package agent

import "hutch/fs"

// A Spool is a stream with one writer whose readers may come at any time and
// read it again, as they do a command's output: it keeps up to a limit of
// bytes, and when it is full what every reader has gone past makes room, or
// the writer waits.
type Spool struct{ w *window }

// NewSpool returns an empty Spool of up to limit bytes.
func NewSpool(limit int64) *Spool { return &Spool{newWindow(limit)} }

// Write appends p, in pieces where there is not room for all. It is
// ErrPipe after Abandon.
func (s *Spool) Write(p []byte) (int, error) {
	for done := 0; ; {
		if done == len(p) {
			return done, nil
		}
		b := s.w.space()
		if b == nil {
			return done, fs.ErrPipe
		}
		n := copy(b, p[done:])
		s.w.commit(n)
		done += n
	}
}

// Finish marks the end of the stream.
func (s *Spool) Finish() { s.w.finish() }

// Abandon makes the writer stop.
func (s *Spool) Abandon() { s.w.abandon() }

// Size returns how many bytes were written.
func (s *Spool) Size() int64 { return s.w.size() }

// Open returns a handle for reading, which blocks at the end, or with
// nonblock gives ErrAgain there.
func (s *Spool) Open(nonblock bool) fs.Handle { return s.w.open(nonblock) }
