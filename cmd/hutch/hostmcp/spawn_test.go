package hostmcp

import (
	"context"
	"errors"
	"fmt"
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
	service := newService(Config{Address: s.addr})
	watch, err := service.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.close()
	for n := range 100 {
		after := time.Duration(n*n) * time.Microsecond // to 10 ms, most of them early
		err := spawnFor(t, service, after, args{"id": "dev", "command": "sleep 1000", "env": env})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("spawn cancelled after %v: %v", after, err)
		}
		if names, err := watch.folders(t.Context(), "vm/dev/exec"); err != nil || len(names) > 0 {
			t.Fatalf("spawn cancelled after %v left %q, %v", after, names, err)
		}
	}
}

// spawnFor calls spawn, which is cancelled after a while.
func spawnFor(t *testing.T, s *service, after time.Duration, a args) (err error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &call{h: &host{service: s}, args: arguments(a)}
	if c.t, err = s.dial(ctx); err != nil {
		t.Fatal(err)
	}
	defer c.t.close()
	time.AfterFunc(after, cancel)
	_, err = c.spawn(ctx)
	return err
}
