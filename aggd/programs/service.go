package programs

import (
	"context"
	"encoding/json"
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
		if o.Stop {
			h.stop(o.ID)
			continue
		}
		if starts.Wait(ctx) != nil {
			return
		}
		if err := h.start(o, to); err != nil {
			to.Send(notice{ID: o.ID, Refused: err.Error()})
		}
	}
}

// start starts the program of a key, hands over its pipes and sees to its end.
func (h *Host) start(o order, to *wire.Socket) error {
	d, err := h.lookup(o)
	if err != nil {
		return err
	}
	r, pipes, err := startProgram(d, h.Grace, h.log)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.running[o.ID] = r
	h.mu.Unlock()
	err = to.Send(notice{ID: o.ID, Started: true}, int(pipes[0].Fd()), int(pipes[1].Fd()))
	closeAll(pipes[:])
	h.tasks.Go(func() {
		if err != nil {
			r.stop()
		}
		<-r.p.Exited()
		h.mu.Lock()
		delete(h.running, o.ID)
		h.mu.Unlock()
		to.Send(notice{ID: o.ID, Ended: r.how, Words: r.said.last()})
	})
	return nil
}

// lookup returns what an order is to start.
func (h *Host) lookup(o order) (definition, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.defined[o.Start]
	switch {
	case !ok:
		return d, fmt.Errorf("start: the program is not defined any more")
	case h.running[o.ID] != nil:
		return d, fmt.Errorf("start: program %d runs already", o.ID)
	case len(h.running) >= maxPrograms:
		return d, fmt.Errorf("start: more than %d programs at once", maxPrograms)
	}
	return d, nil
}

func (h *Host) stop(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.running[id]; r != nil {
		h.tasks.Go(r.stop)
	}
}

// end ends all programs and waits.
func (h *Host) end() {
	h.mu.Lock()
	for _, r := range h.running {
		h.tasks.Go(r.stop)
	}
	h.mu.Unlock()
	h.tasks.Wait()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
