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
		if err := c.beginListen(t.Context(), ""); err != nil {
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

// A slowTransport is one to a server that agrees to a listen when it is told to.
type slowTransport struct {
	deafTransport
	asked chan *call
}

func (t *slowTransport) send(_ context.Context, _ []byte, q *call) error {
	if q != nil { // no news of one that is not wanted any more
		t.asked <- q
	}
	return nil
}

// TestListenAnew ends a listen before the server agrees and begins another for the same
// resource, which those share who want it, and which the end of the first does not end.
func TestListenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &aggregator{cfg: Config{Log: io.Discard}.withDefaults()}
		a.setLimits(wire.Limits{})
		u := &upstream{agg: a, name: "s", session: session{capabilities: []byte(`{"resources":{"subscribe":true}}`)}}
		c, to := newConn(u), &slowTransport{asked: make(chan *call, 9)}
		c.transport = to
		ended := make(chan error, 3)
		begin := func(ctx context.Context) { ended <- c.beginListen(ctx, "r:") }
		go begin(t.Context())
		<-to.asked
		c.endListen("r:")
		for range 2 {
			go begin(t.Context())
		}
		impatient, giveUp := context.WithCancel(t.Context())
		go begin(impatient)
		synctest.Wait()
		if err := <-ended; err == nil {
			t.Error("the first began, though nobody wanted it any more")
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		q := <-to.asked
		q.acknowledged <- json.RawMessage(`{"resourceSubscriptions":["r:"]}`)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if l := c.listens.byURI["r:"]; l == nil || l.ctx.Err() != nil || len(to.asked) > 0 {
			t.Errorf("%+v, and %d more were asked for", l, len(to.asked))
		}
		c.endListen("r:")
		c.fail(errors.New("over"))
		a.tasks.Wait()
	})
}
