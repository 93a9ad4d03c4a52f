package gateway

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"hutch/fs"
)

// A Data is a session's input and output on one open file. What is written goes
// to the endpoint in any pieces, as from a client that starts a relay in the
// guest, and what is wrong with a line is answered; what is read begins with what
// comes after it was opened. A session has one Data at a time; while that is at a
// line nobody else's comes in between.
type Data struct {
	fs.Handle // of Out
	s         *Session
	turn      chan struct{} // holds a token: whoever has it writes
	within    bool          // a line has begun, and others wait for its end
	begun     int64         // bytes of it
}

// closing is how long a client that opens Data waits for the one before: a
// kernel that serves a mount tells of a close only after it.
const closing = time.Second

// OpenData opens the session's input and output.
func (s *Session) OpenData(ctx context.Context, nonblock bool) (*Data, error) {
	select {
	case s.joined <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(closing):
		return nil, fmt.Errorf("%w: data of MCP session %q is open: one client at a time has it", fs.ErrBusy, s.Name)
	}
	return &Data{Handle: s.Out.OpenEnd(nonblock), s: s, turn: make(chan struct{}, 1)}, nil
}

// WriteAt takes what it can before ctx is done.
func (d *Data) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	whole := bytes.LastIndexByte(p, '\n') + 1
	if err := d.write(ctx, p[:whole]); err != nil {
		return 0, err
	}
	if err := d.write(ctx, p[whole:]); err != nil {
		return whole, err
	}
	return len(p), nil
}

// write passes on whole lines, or the beginning of one.
func (d *Data) write(ctx context.Context, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if !d.within {
		if err := d.s.begin(ctx); err != nil {
			return err
		}
	}
	ends := bytes.HasSuffix(p, newline)
	err := d.hold(len(p), ends)
	if err == nil {
		err = d.s.put(ctx, line{text: bytes.Clone(p), greeted: true})
	}
	if err == nil {
		d.within = !ends
	}
	if !d.within {
		d.release()
		d.s.finish()
	}
	return err
}

// maxBegun is how many bytes the lines may have that have begun and not ended, in
// all sessions of a VM.
const maxBegun = 64 << 20

// hold counts n bytes of a line that has not ended.
func (d *Data) hold(n int, ends bool) error {
	if ends {
		return nil
	}
	if d.s.g.begun.Add(int64(n)) > maxBegun {
		d.s.g.begun.Add(int64(-n))
		return fmt.Errorf("%w: lines that have begun in sessions of %s have %d MiB: end one first", fs.ErrNoSpace, d.s.g, maxBegun>>20)
	}
	d.begun += int64(n)
	return nil
}

// release counts the line out.
func (d *Data) release() {
	d.s.g.begun.Add(-d.begun)
	d.begun = 0
}

// Close ends the line that was begun, and lets another client have the session.
func (d *Data) Close() error {
	d.turn <- struct{}{} // a write that was cancelled may not have returned yet
	defer func() { <-d.s.joined }()
	d.release()
	if d.within {
		d.s.g.Later(func(context.Context) error { // else the VM is gone
			defer d.s.finish()
			return d.s.put(d.s.ctx, line{text: newline})
		})
	}
	return d.Handle.Close()
}
