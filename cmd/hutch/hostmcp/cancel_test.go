package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSpawnCancelled has a call that is cancelled, early or late on its way,
// leave no command.
func TestSpawnCancelled(t *testing.T) {
	s := newSite(t)
	s.connect().call("create", args{"name": "dev"})
	env := args{} // each takes a message
	for i := range 3000 {
		env[fmt.Sprint("V", i)] = ""
	}
	service, watch := s.watch()
	for n := range 100 {
		after := time.Duration(n*n) * time.Microsecond // to 10 ms, most of them early
		err := cancelled(t, service, after, args{"id": "dev", "command": "sleep 1000", "env": env}, (*call).spawn)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("spawn cancelled after %v: %v", after, err)
		}
		if names, err := watch.folders(t.Context(), "vm/dev/exec"); err != nil || len(names) > 0 {
			t.Fatalf("spawn cancelled after %v left %q, %v", after, names, err)
		}
	}
}

// TestForkCancelled has one leave no sandbox.
func TestForkCancelled(t *testing.T) {
	s := newSite(t)
	c := s.connect()
	c.call("create", args{"name": "dev"})
	c.call("stop", args{"id": "dev"})
	service, watch := s.watch()
	for n := range 60 {
		after := time.Duration(n*n) * 2 * time.Microsecond
		name, want := fmt.Sprint("copy", n), []string{"dev"}
		err := cancelled(t, service, after, args{"id": "dev", "name": name, "description": "a copy"}, (*call).fork)
		switch {
		case err == nil:
			want = []string{name, "dev"}
		case !errors.Is(err, context.Canceled):
			t.Errorf("fork cancelled after %v: %v", after, err)
		}
		if names, err := watch.folders(t.Context(), "vm"); err != nil || !slices.Equal(slices.Sorted(slices.Values(names)), want) {
			t.Fatalf("fork cancelled after %v left %q, %v", after, names, err)
		}
		if err == nil {
			c.call("delete", args{"id": name})
		}
	}
}

// TestWholeEnds has what is done whole end, though the service does not answer.
func TestWholeEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "silent")
	l, err := net.Listen("unix", path) // who connects waits in its queue
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &call{h: &host{service: newService(Config{Address: "unix!" + path})}}
	if err := c.mkdir(ctx, "vm/dev"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// watch returns a service of the site, and a tree of its own to look at.
func (s *site) watch() (*service, *tree) {
	s.t.Helper()
	service := newService(Config{Address: s.addr})
	watch, err := service.dial(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(watch.close)
	return service, watch
}

// cancelled does a call, which is cancelled after a while.
func cancelled(t *testing.T, s *service, after time.Duration, a args, do func(*call, context.Context) (any, error)) (err error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &call{h: &host{service: s}, args: arguments(a)}
	if c.t, err = s.dial(ctx); err != nil {
		t.Fatal(err)
	}
	defer c.t.close()
	time.AfterFunc(after, cancel)
	_, err = do(c, ctx)
	return err
}
