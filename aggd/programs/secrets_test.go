package programs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/wire"
	"hutch/fs"
)

// A vault has a secret for "ref", or an error.
type vault struct {
	mu     sync.Mutex // guards what follows
	secret string
	err    error
	hold   chan bool // closed when an answer may be given; nil: any time
}

func (v *vault) set(secret string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secret, v.err = secret, err
}

func (v *vault) resolve(ctx context.Context, value string) (string, error) {
	if value != "ref" {
		return value, nil
	}
	if v.hold != nil {
		select {
		case <-v.hold:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.secret, v.err
}

// run returns what the program of a definition writes, to its end.
func (r *rig) run(t *testing.T, key string) (string, error) {
	t.Helper()
	p, err := r.Start(t.Context(), key)
	if err != nil {
		return "", err
	}
	defer p.Out.Close()
	p.In.Close()
	b, err := io.ReadAll(p.Out)
	<-p.Ended()
	return string(b), err
}

func withSecret(line string) []wire.Server {
	return []wire.Server{{Name: "s", Program: wire.Program{
		Command: "sh", Args: []string{"-c", line}, Env: map[string]string{"TOKEN": "ref", "PLAIN": "x"},
	}}}
}

// TestSecret gives a program its secret when it is started, the newest one each
// time, and does not start one whose secret cannot be had.
func TestSecret(t *testing.T) {
	v := &vault{secret: "one"}
	r := beginWith(t, v.resolve)
	define := func() string { return r.Define(withSecret(`echo "$TOKEN $PLAIN"`))[0].Descriptor }
	key := define()
	for _, secret := range []string{"one", "two"} {
		v.set(secret, nil)
		if got, err := r.run(t, key); got != secret+" x\n" || err != nil {
			t.Errorf("it wrote %q, %v, want %s", got, err, secret)
		}
	}
	v.set("", fmt.Errorf("%w: ref: no such secret", fs.ErrNotExist))
	if got, err := r.run(t, key); got != "" || err == nil || !strings.Contains(err.Error(), "ref: no such secret") {
		t.Errorf("without its secret it wrote %q, %v", got, err)
	}
}

// TestRotate has the definition of a program be another when its secret is, or is
// gone, and the same when that cannot be told, or nothing was started.
func TestRotate(t *testing.T) {
	v := &vault{secret: "one"}
	r := beginWith(t, v.resolve)
	define := func() string {
		r.Rotate(t.Context())
		return r.Define(withSecret("cat"))[0].Descriptor
	}
	key := define()
	same := func(what string, want bool) {
		t.Helper()
		now := define()
		if (now == key) != want {
			t.Errorf("%s: key %s after %s", what, now, key)
		}
		key = now
	}
	start := func() {
		t.Helper()
		if _, err := r.run(t, key); err != nil {
			t.Fatal(err)
		}
	}
	v.set("two", nil)
	same("nothing was started", true)
	start()
	same("the same secret", true)
	v.set("", fmt.Errorf("%w: no answer", fs.ErrTimedOut))
	same("no answer", true)
	v.set("three", nil)
	same("another secret", false)
	start()
	v.set("", fmt.Errorf("%w: no such secret", fs.ErrNotExist))
	same("no secret", false)
}

// TestSlowSecret has a program wait for its secret, which holds up no other, and
// ends with the aggregator.
func TestSlowSecret(t *testing.T) {
	v := &vault{secret: "one", hold: make(chan bool)}
	r := beginWith(t, v.resolve)
	servers := append(withSecret("cat"), wire.Server{Name: "t", Program: wire.Program{Command: "echo", Args: []string{"quick"}}})
	told := r.Define(servers)
	started := make(chan error)
	go func() {
		_, err := r.Start(context.Background(), told[0].Descriptor)
		started <- err
	}()
	if got, err := r.run(t, told[1].Descriptor); got != "quick\n" || err != nil {
		t.Errorf("beside one that waits: %q, %v", got, err)
	}
	r.conn.Close()
	if err := <-started; err == nil {
		t.Error("started by nobody")
	}
}
