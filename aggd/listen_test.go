package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hutch/aggd/wire"
)

// A restartedTransport is one to a server that ends its first listen, is away at the
// second, and keeps the third.
type restartedTransport struct {
	deafTransport
	listens atomic.Int32
}

func (t *restartedTransport) send(_ context.Context, _ []byte, q *call) error {
	n := t.listens.Add(1)
	if n == 2 {
		return errors.New("nobody is there")
	}
	q.acknowledged <- json.RawMessage(`{}`)
	if n == 1 {
		time.AfterFunc(time.Second, func() { q.settle(outcome{result: json.RawMessage(`{}`)}) })
	}
	return nil
}

func TestListenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &aggregator{cfg: Config{Log: io.Discard}.withDefaults()}
		a.setLimits(wire.Limits{})
		u := &upstream{agg: a, name: "s", session: session{capabilities: []byte(`{"tools":{"listChanged":true}}`)}}
		c, to := newConn(u), &restartedTransport{}
		c.transport = to
		if err := c.listen(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // of the test's own time
		if n := to.listens.Load(); n != 3 {
			t.Errorf("%d listens, want 3", n)
		}
		c.fail(errors.New("over"))
		a.tasks.Wait()
	})
}
