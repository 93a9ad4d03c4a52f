package aggd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
)

// A stdio carries messages to a program that hutchd runs for us, a line each.
type stdio struct {
	c     *conn
	p     *programs.Program
	in    *wire.Queue
	once  sync.Once
	tasks sync.WaitGroup
}

// openStdio has the program started.
func openStdio(ctx context.Context, c *conn, def definition) error {
	p, err := c.up.agg.cfg.Programs.Start(ctx, def.Descriptor)
	if err != nil {
		return err
	}
	t := &stdio{c: c, p: p, in: wire.NewQueue(p.In)}
	c.transport = t
	read := make(chan struct{})
	t.tasks.Go(func() {
		defer close(read)
		t.read()
	})
	t.tasks.Go(func() {
		<-p.Ended()
		t.in.Close()
		drain(p.Out, read)
		<-read // what came before the end counts
		p.Out.Close()
		t.c.fail(fmt.Errorf("the server died %s", p.How()))
	})
	return nil
}

// maxDrain is for how many seconds the output of a program that has ended is read
// on while more comes.
const maxDrain = 60

// drain ends the reading of a program's output once the program has ended and no
// more comes for a second: somebody who outlived it may hold the pipe.
func drain(out *os.File, read <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range maxDrain {
		select {
		case <-read:
			return
		case <-tick.C:
			if !readable(out) {
				out.SetReadDeadline(time.Now())
				return
			}
		}
	}
	out.SetReadDeadline(time.Now())
}

// read hands on what the program says until it says no more. A program that has
// closed its output is of no use and is ended.
func (t *stdio) read() {
	r := wire.NewLimitedReader(t.p.Out, t.c.up.agg.maxResult)
	for {
		line, err := r.Read()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long):
			t.c.tooLong(long, nil)
		case err != nil:
			if errors.Is(err, wire.ErrEndless) {
				t.c.fail(fmt.Errorf("the server sent %w", err))
			}
			t.stop()
			return
		default:
			t.c.receive(line, nil)
		}
	}
}

func (t *stdio) send(ctx context.Context, msg []byte, q *call) error {
	err := t.in.Put(msg)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrStuck):
		return fmt.Errorf("the server %w", err)
	}
	t.stop() // without input it is of no use
	select {
	case <-t.c.over: // which tells the calls why
	case <-ctx.Done():
	}
	if q != nil {
		return errOver
	}
	return nil
}

func (t *stdio) begin(string) {}

// close ends the program with all it started.
func (t *stdio) close() {
	t.stop()
	t.tasks.Wait()
}

// stop ends the program: by the end of its input, and hutchd by force.
func (t *stdio) stop() {
	t.once.Do(func() {
		t.in.Close()
		t.p.Stop()
	})
}
