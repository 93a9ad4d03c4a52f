package aggd

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"hutch/aggd/wire"
)

// A stuckTransport takes nothing until it is free.
type stuckTransport struct {
	deafTransport
	free chan struct{}
	sent atomic.Int64
}

func (t *stuckTransport) send(context.Context, []byte, *call) error {
	<-t.free
	t.sent.Add(1)
	return nil
}

// A server that asks without end and takes no answers does not use up the memory.
func TestAnswersNotTaken(t *testing.T) {
	a := &aggregator{cfg: Config{Log: io.Discard}.withDefaults()}
	a.setLimits(wire.Limits{})
	c, to := newConn(&upstream{agg: a, name: "s"}), &stuckTransport{free: make(chan struct{})}
	c.transport = to
	ping := []byte(`{"jsonrpc":"2.0","method":"ping","id":"` + strings.Repeat("x", 1<<20) + `"}`)
	for range 100 {
		c.receive(ping, nil)
	}
	close(to.free)
	a.tasks.Wait()
	if n := to.sent.Load(); n == 0 || n > maxAnswering>>20 {
		t.Errorf("%d answers waited", n)
	}
	before := to.sent.Load()
	c.receive(ping, nil)
	a.tasks.Wait()
	if to.sent.Load() != before+1 || c.answering.Load() != 0 {
		t.Errorf("%d answers after %d, %d bytes are left", to.sent.Load(), before, c.answering.Load())
	}
}
