package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hutch/fs"
)

// TestCancelled has calls that make something, cancelled early or late on their
// way, leave nothing. Those that end before are undone by the test. How long the way
// is, the quickest that was not cancelled tells.
func TestCancelled(t *testing.T) {
	env := args{} // each takes a message
	for i := range 3000 {
		env[fmt.Sprint("V", i)] = ""
	}
	for _, c := range []struct {
		tool   string
		do     func(*call, context.Context) (any, error)
		args   args
		parent string // of what is made
	}{
		{"spawn", (*call).spawn, args{"id": "dev", "command": "sleep 1000", "env": env}, "vm/dev/exec"},
		{"create", (*call).create, args{"name": "new", "image": "host"}, "vm"},
		{"create a copy", (*call).create, args{"name": "new", "from": "dev"}, "vm"},
		{"fork", (*call).fork, args{"id": "dev", "name": "new", "description": "a copy"}, "vm"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			s := newSite(t)
			s.connect().call("create", args{"name": "dev"})
			h := &host{service: newService(Config{Address: s.addr})}
			watch, err := h.service.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer watch.close()
			before, err := watch.folders(t.Context(), c.parent)
			if err != nil {
				t.Fatal(err)
			}
			const times = 80
			cancelled, longest := 0, time.Hour
			// once does the call, and undoes what it made where it was done.
			once := func(after time.Duration) {
				began := time.Now()
				err := cancelledCall(t, h, after, c.args, c.do)
				switch {
				case err == nil:
					longest = min(longest, time.Since(began))
				case errors.Is(err, context.Canceled):
					cancelled++
				default:
					t.Errorf("cancelled after %v: %v", after, err)
				}
				names, lerr := watch.folders(t.Context(), c.parent)
				if lerr != nil || err != nil && !slices.Equal(names, before) {
					t.Fatalf("cancelled after %v it left %q, %v", after, names, lerr)
				}
				for _, name := range names {
					if !slices.Contains(before, name) {
						(&call{h: h}).discard(t.Context(), path.Join(c.parent, name), nil)
					}
				}
			}
			once(longest)
			for n := range times {
				once(longest * time.Duration(n*n) / (times * times)) // most of them early
			}
			if cancelled < times/4 {
				t.Errorf("%d of %d calls were cancelled", cancelled, times)
			}
		})
	}
}

// cancelledCall does a call, which is cancelled after a while.
func cancelledCall(t *testing.T, h *host, after time.Duration, a args, do func(*call, context.Context) (any, error)) (err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &call{h: h, args: arguments(a)}
	if c.t, err = h.service.dial(ctx); err != nil {
		t.Fatal(err)
	}
	defer c.t.close()
	defer time.AfterFunc(after, cancel).Stop()
	_, err = do(c, ctx)
	return err
}

// TestWholeEnds has what outlasts a cancel end, though the service does not answer.
func TestWholeEnds(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "silent")
	l, err := net.Listen("unix", addr) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &call{h: &host{service: newService(Config{Address: "unix!" + addr}), wholeLimit: 10 * time.Millisecond}}
	if err := c.discard(ctx, "vm/dev", nil); !errors.Is(err, fs.ErrTimedOut) {
		t.Error(err)
	}
}

// TestCancelledAnswer has a cancelled call have an answer, or leave nothing.
func TestCancelledAnswer(t *testing.T) {
	s := newSite(t)
	watch, err := newService(Config{Address: s.addr}).dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.close()
	silent := 0
	for n := range 60 {
		w := s.wire()
		w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hutch_create","arguments":{"name":"new%d"}}}`, n)
		time.AfterFunc(time.Duration(n*n)*5*time.Microsecond, func() {
			w.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"))
			w.in.Close()
		})
		answer, err := io.ReadAll(w.out) // which ends when all is done
		if err != nil {
			t.Fatal(err)
		}
		_, err = watch.stat(t.Context(), fmt.Sprint("vm/new", n))
		switch {
		case len(answer) == 0 && !errors.Is(err, fs.ErrNotExist):
			t.Errorf("a call without an answer left a sandbox: %v", err)
		case len(answer) > 0 && err != nil:
			t.Errorf("%s: %v", answer, err)
		case len(answer) == 0:
			silent++
		}
	}
	if silent == 0 {
		t.Error("no call was cancelled")
	}
}
