package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestSpawnCancelled has a call that is cancelled on its way leave no command.
func TestSpawnCancelled(t *testing.T) {
	s := newSite(t)
	s.connect().call("create", args{"name": "dev"})
	env := args{} // each takes a message
	for i := range 3000 {
		env[fmt.Sprint("V", i)] = ""
	}
	c := &call{h: &host{service: newService(Config{Address: s.addr})}, args: arguments{"id": "dev", "command": "sleep 1000", "env": env}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	if c.t, err = c.h.service.dial(ctx); err != nil {
		t.Fatal(err)
	}
	watch, err := c.h.service.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.close()
	ended := make(chan error, 1)
	go func() {
		_, err := c.spawn(ctx)
		ended <- err
	}()
	for {
		names, err := watch.folders(t.Context(), "vm/dev/exec")
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 {
			break
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("spawn: %v", err)
	}
	if names, err := watch.folders(t.Context(), "vm/dev/exec"); err != nil || len(names) > 0 {
		t.Errorf("it left %q, %v", names, err)
	}
}
