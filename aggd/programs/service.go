package programs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/time/rate"

	"hutch/aggd/wire"
)

// Serve serves the aggregator at the other end of c until that ends or ctx does;
// then it ends all programs, and waits for that.
func (h *Host) Serve(ctx context.Context, c *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	h.obey(ctx, wire.NewReader(c, maxOrder), wire.NewSocket(c, 0)) // no descriptor comes by a plain read
	c.Close()
	h.end()
}

// obey does what the lines of in say, until they end or are none.
func (h *Host) obey(ctx context.Context, in *wire.Reader, to *wire.Socket) {
	starts := rate.NewLimiter(startRate, startBurst)
	for {
		line, err := in.Read()
		if err != nil {
			return
		}
		var o order
		if json.Unmarshal(line, &o) != nil {
			return // it is not ours any more
		}
		switch {
		case o.Stop:
			h.stop(o.ID)
			continue
		case o.Dial != 0:
			if err := h.dial(o, to); err != nil {
				to.Send(notice{ID: o.ID, Refused: err.Error()})
			}
			continue
		}
		if starts.Wait(ctx) != nil {
			return
		}
		if err := h.start(ctx, o, to); err != nil {
			to.Send(notice{ID: o.ID, Refused: err.Error()})
		}
	}
}

// start has the program of a key started and seen to, on a goroutine of its own:
// a sandbox takes its time.
func (h *Host) start(ctx context.Context, o order, to *wire.Socket) error {
	ctx, cancel := context.WithCancel(ctx)
	r, err := h.enter(ctx, o, cancel)
	if err != nil {
		cancel()
		return err
	}
	h.tasks.Go(func() {
		defer cancel()
		if err := h.run(r, o, to); err != nil {
			to.Send(notice{ID: o.ID, Refused: err.Error()})
		}
	})
	return nil
}

// enter puts what an order is to start among what runs.
func (h *Host) enter(ctx context.Context, o order, give context.CancelFunc) (*running, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.defined[o.Start]
	switch {
	case !ok:
		return nil, errors.New("start: the program is not defined any more")
	case h.running[o.ID] != nil:
		return nil, fmt.Errorf("start: program %d runs already", o.ID)
	case len(h.running) >= maxPrograms:
		return nil, fmt.Errorf("start: more than %d programs at once", maxPrograms)
	}
	r := &running{definition: d, said: NewComplaints(d.Server, h.log, h.Show), ctx: ctx, give: give, grace: cmp.Or(h.Grace, termGrace)}
	h.running[o.ID] = r
	return r, nil
}

// run starts the program, hands over its pipes, and returns when it has ended.
func (h *Host) run(r *running, o order, to *wire.Socket) error {
	task, pipes, got, err := h.begin(r)
	if err != nil {
		h.leave(o.ID)
		if words := r.said.Last(); words != "" {
			err = fmt.Errorf("%w: %s", err, words)
		}
		return err
	}
	h.mu.Lock()
	r.task = task
	stopped := r.stopped
	if _, ok := h.defined[o.Start]; ok && got != (digest{}) {
		h.given[o.Start] = got
	}
	h.mu.Unlock()
	var fds []int
	for _, f := range pipes {
		fds = append(fds, int(f.Fd()))
	}
	err = to.Send(notice{ID: o.ID, Started: r.Port == 0, Listens: r.Port != 0}, fds...)
	closeAll(pipes...)
	if err != nil || stopped {
		h.tasks.Go(r.stop)
	}
	<-task.Exited()
	h.leave(o.ID)
	to.Send(notice{ID: o.ID, Ended: r.how, Words: r.said.Last()})
	return nil
}

// begin starts a program with its secrets, and says what they were.
func (h *Host) begin(r *running) (Task, []*os.File, digest, error) {
	env, got, err := r.resolve(r.ctx, h.Resolve)
	if err != nil {
		return nil, nil, got, err
	}
	r.Env = env
	task, pipes, err := r.begin(h.elsewhere)
	return task, pipes, got, err
}

func (h *Host) leave(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, id)
}

func (h *Host) stop(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.running[id]; r != nil {
		h.halt(r)
	}
}

// halt ends a program, or gives up its start. Its caller holds mu.
func (h *Host) halt(r *running) {
	r.stopped = true
	r.give()
	if r.task != nil {
		h.tasks.Go(r.stop)
	}
}

// end ends all programs and waits.
func (h *Host) end() {
	h.mu.Lock()
	for _, r := range h.running {
		h.halt(r)
	}
	h.mu.Unlock()
	h.tasks.Wait()
}
