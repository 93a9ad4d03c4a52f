package child

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
)

// A vault has a secret for each value that begins with "ref", or an error.
type vault struct {
	mu     sync.Mutex // guards what follows
	secret string
	err    error
}

func (v *vault) set(secret string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secret, v.err = secret, err
}

func (v *vault) resolve(_ context.Context, value string) (string, error) {
	if !strings.HasPrefix(value, "ref") {
		return value, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.secret, v.err
}

// web returns a server that tells what tokens it is asked with.
func web(t *testing.T) (wire.Server, <-chan string) {
	tokens := make(chan string)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case tokens <- r.Header.Get("Authorization") + " " + r.Header.Get("X-Key"):
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(h.Close)
	return wire.Server{Name: "s", Enabled: true, URL: h.URL, Type: "http", BearerToken: "ref", Headers: map[string]string{"X-Key": "ref", "X-Plain": "x"}}, tokens
}

// await waits until a server is asked with what is wanted; what it was asked with
// before may still come.
func await(t *testing.T, asked <-chan string, want string) {
	t.Helper()
	late := soon(t)
	for last := ""; ; {
		select {
		case last = <-asked:
			if last == want {
				return
			}
		case <-late.Done():
			t.Fatalf("it is asked with %q, want %q", last, want)
		}
	}
}

// TestSecrets tells the aggregator the secrets of an HTTP server, the newest at each
// refresh, and none in the place of one that is gone.
func TestSecrets(t *testing.T) {
	v := &vault{secret: "one"}
	s, asked := web(t)
	c, r := begin(t, Config{Servers: []wire.Server{s}, Resolve: v.resolve})
	await(t, asked, "Bearer one one")
	v.set("two", nil)
	if err := c.Refresh(soon(t), []wire.Server{s}); err != nil {
		t.Fatal(err)
	}
	await(t, asked, "Bearer two two")
	v.set("", fmt.Errorf("%w: no answer", fs.ErrTimedOut)) // which takes away nothing
	if err := c.Refresh(soon(t), []wire.Server{s}); err != nil {
		t.Fatal(err)
	}
	await(t, asked, "Bearer two two")
	v.set("", fmt.Errorf("ref: %w: no such secret", fs.ErrNotExist))
	if err := c.Refresh(soon(t), []wire.Server{s}); err == nil || !strings.Contains(err.Error(), "ref: ") {
		t.Errorf("refreshed without a secret: %v", err)
	}
	all, err := c.Servers(soon(t))
	if err != nil || len(all) != 1 || all[0].State != wire.Failed || !strings.Contains(all[0].Error, "ref: ") {
		t.Errorf("its state is %+v, %v", all, err)
	}
	if _, err := c.Call(soon(t), tool("x")); err == nil || !strings.Contains(err.Error(), "ref: file does not exist: no such secret") {
		t.Errorf("a call says %v", err)
	}
	if text := r.text(); strings.Contains(text, "one") || strings.Contains(text, "two") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// TestFaults tries again what secrets may mend, and not what is defined wrongly.
func TestFaults(t *testing.T) {
	for fault, want := range map[string]int{"": 1, "its image is no image": 0} {
		v := &vault{err: fs.ErrTimedOut}
		if fault != "" {
			v.err = nil
		}
		c := &Child{cfg: Config{Resolve: v.resolve}, defining: make(chan struct{}, 1), faulty: make(chan struct{}, 1)}
		s := wire.Server{Name: "s", BearerToken: "ref", Fault: fault}
		if err := c.define(t.Context(), func() []wire.Server { return []wire.Server{s} }); err != nil {
			t.Fatal(err)
		}
		if n := len(c.faulty); n != want {
			t.Errorf("fault %q: it is tried again %d times, want %d", fault, n, want)
		}
	}
}

// TestSecretsLater has the secret of a server be there only after the aggregator was
// told of it: a text that is a reference is told to nobody meanwhile.
func TestSecretsLater(t *testing.T) {
	t.Parallel()
	v := &vault{err: fmt.Errorf("%w: no answer", fs.ErrTimedOut)}
	s, asked := web(t)
	c, r := begin(t, Config{Servers: []wire.Server{s, fake(t, "t")}, Resolve: v.resolve})
	<-r.ups
	if got, err := c.Call(soon(t), wire.Call{Server: "t", Method: "tools/call", Params: []byte(`{}`)}); err != nil {
		t.Errorf("a server beside it: %s, %v", got.Result, err)
	}
	v.set("late", nil)
	if got := <-asked; got != "Bearer late late" {
		t.Errorf("it is first asked with %q", got)
	}
	for n := range r.notes { // nobody has asked for its lists before
		if n.Server == "s" && n.Method == wire.Tools.Changed {
			break
		}
	}
}

// TestSecretsSlow has the secret of a server take long, for which another that is asked
// meanwhile does not wait.
func TestSecretsSlow(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := func(ctx context.Context, value string) (string, error) {
		if value != "ref" {
			return value, nil
		}
		select {
		case <-release:
			return "late", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	s, asked := web(t)
	c, _ := begin(t, Config{Servers: []wire.Server{s, fake(t, "t")}, Resolve: slow})
	began := time.Now()
	if got, err := c.Call(soon(t), wire.Call{Server: "t", Method: "tools/call", Params: []byte(`{}`)}); err != nil {
		t.Errorf("a server beside it: %s, %v", got.Result, err)
	}
	if took := time.Since(began); took > resolveTime/2 {
		t.Errorf("it waited %v", took)
	}
	all, err := c.Servers(soon(t))
	if err != nil || !strings.Contains(all[0].Error, "it waits for its secrets") {
		t.Errorf("its state is %+v, %v", all, err)
	}
	close(release)
	await(t, asked, "Bearer late late")
}
