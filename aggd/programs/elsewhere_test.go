package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// defineElsewhere defines a program that runs in a sandbox, and returns its key.
func (r *rig) defineElsewhere(command string) string {
	return r.Define([]wire.Server{{Name: "s", Program: wire.Program{Command: command, Sandbox: "box"}}})[0].Descriptor
}

// TestElsewhere has programs started in a sandbox, which is one of the host here.
func TestElsewhere(t *testing.T) {
	r := begin(t)
	if _, err := r.Start(t.Context(), r.defineElsewhere("cat")); err == nil || !strings.Contains(err.Error(), "no sandboxes") {
		t.Errorf("without any: %v", err)
	}
	r = begin(t)
	r.elsewhere = func(ctx context.Context, s Start) (Task, error) {
		if s.Command == "never" {
			closeAll(s.In, s.Out)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		if s.Sandbox != "box" || s.Server != "s" {
			return nil, errors.New("another's")
		}
		return startProcess(ctx, s)
	}
	p, err := r.Start(t.Context(), r.defineElsewhere("cat"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(p.In, "hello")
	p.In.Close()
	if b, err := io.ReadAll(p.Out); string(b) != "hello" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	p.Out.Close()
	<-p.Ended()
}

// TestElsewhereLate gives up the start of a program that takes too long, while
// others start.
func TestElsewhereLate(t *testing.T) {
	r := begin(t)
	begun := make(chan struct{})
	r.elsewhere = func(ctx context.Context, s Start) (Task, error) {
		closeAll(s.In, s.Out)
		close(begun)
		<-ctx.Done()
		return nil, errors.New("given up")
	}
	key := r.defineElsewhere("never")
	late := &Program{client: r.Client, started: make(chan error, 1), ended: make(chan struct{})}
	if err := r.Client.enter(late); err != nil {
		t.Fatal(err)
	}
	r.to.Send(order{Start: key, ID: late.id})
	<-begun
	p := r.start(t, "cat")
	p.In.Close()
	<-p.Ended()
	late.Stop()
	if err := <-late.started; err == nil || !strings.Contains(err.Error(), "given up") {
		t.Error(err)
	}
}
