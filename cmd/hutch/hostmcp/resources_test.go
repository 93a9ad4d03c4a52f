package hostmcp

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (p *peer) resource(uri string) (*mcp.ResourceContents, error) {
	r, err := p.ReadResource(p.t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	return r.Contents[0], nil
}

func TestResources(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev", "env": args{"KEY": "hidden"}})
	c.call("write_file", args{"id": "dev", "path": "bin", "content": "AP8Q", "encoding": "base64"})
	c.call("write_file", args{"id": "dev", "path": "a b?", "content": "odd"})
	list, err := c.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != len(rootFiles) {
		t.Fatalf("list: %v, %v", list, err)
	}
	for _, r := range list.Resources {
		if _, err := c.resource(r.URI); err != nil {
			t.Errorf("%s: %v", r.URI, err)
		}
	}
	more, err := c.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(more.ResourceTemplates) != len(templates) {
		t.Fatalf("templates: %v, %v", more, err)
	}
	for uri, want := range map[string]string{
		"vm": "clone\ndev/\n", "vm/dev/work": "'a b?'\nbin\n", "vm/dev/work/a%20b%3F": "odd", "vm/dev/config": "", "/vm//dev/../dev/ctl": "dev\n",
		"vm/dev/work/a%20b%3F?offset=1": "dd",
	} {
		r, err := c.resource("hutch:///" + uri)
		if err != nil || !strings.HasPrefix(r.Text, want) || r.URI != "hutch:///"+uri {
			t.Errorf("%s: %+v, %v", uri, r, err)
		}
	}
	if r, err := c.resource("hutch:///vm/dev/work/bin"); err != nil || base64.StdEncoding.EncodeToString(r.Blob) != "AP8Q" {
		t.Errorf("blob: %+v, %v", r, err)
	}
	for uri, want := range map[string]string{
		"hutch:///nothing": "file does not exist: nothing", "hutch:///vm/dev/events": "does not end: ", "hutch:///vm/dev/mcp/calls": "log/mcp beside it",
		"hutch:///vm/dev/env/KEY": "it may be a secret", "hutch:///vm/dev/../dev/env/KEY": "it may be a secret", "hutch:///profiles/default.toml": "it may hold secrets",
		"hutch:///vm/dev/cons": "it is a console", "hutch:///vm/clone": "permission denied", "hutch://host/vm": "not found",
		"hutch:///vm/dev/work/bin?offset=x": "invalid argument", "hutch:///../../../etc/passwd": "file does not exist", "file:///etc/passwd": "not found",
	} {
		if r, err := c.resource(uri); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", uri, r, err, want)
		}
	}
}

// TestLongResource reads a file in parts.
func TestLongResource(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev"})
	want := strings.Repeat("0123456789é", 200_000)
	c.call("write_file", args{"id": "dev", "path": "long", "content": want})
	var got strings.Builder
	for uri, ok := "hutch:///vm/dev/work/long", true; ok; {
		r, err := c.resource(uri)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(r.Text)
		uri, ok = r.Meta["hutch/next"].(string)
	}
	if got.String() != want {
		t.Errorf("%d bytes of %d", got.Len(), len(want))
	}
}

// TestSubscribe is told of changes.
func TestSubscribe(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev"})
	ctx := t.Context()
	subscribe := func(uri string) error { return c.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}) }
	for _, uri := range []string{"hutch:///vm/dev/status", "hutch:///vm/dev/status", "hutch:///log/service"} {
		if err := subscribe(uri); err != nil {
			t.Fatal(err)
		}
	}
	for uri, want := range map[string]string{
		"hutch:///vm/dev/work/f": "nothing tells of changes", "hutch:///vm/none/status": "file does not exist", "x": "invalid argument",
	} {
		if err := subscribe(uri); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	await := func(want string) {
		t.Helper()
		for uri := range c.updated {
			if uri == want {
				return
			}
		}
	}
	c.call("stop", args{"id": "dev"})
	await("hutch:///vm/dev/status")
	if err := c.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: "hutch:///vm/dev/status"}); err != nil {
		t.Error(err)
	}
	if err := subscribe("hutch:///status"); err != nil {
		t.Error(err)
	}
	for len(c.updated) > 0 {
		<-c.updated
	}
	c.call("resume", args{"name": "dev"})
	await("hutch:///status")
	for len(c.updated) > 0 {
		if uri := <-c.updated; uri == "hutch:///vm/dev/status" {
			t.Error("told of what it does not want to know any more")
		}
	}
}

// TestSubscribeToWhatGoes has a subscription end with what it is of.
func TestSubscribeToWhatGoes(t *testing.T) {
	s := newSite(t)
	c := s.connect()
	c.call("create", args{"name": "dev"})
	w := &watches{h: &host{service: newService(Config{Address: s.addr})}, end: map[string]context.CancelFunc{}}
	if err := w.add(t.Context(), "key", "hutch:///vm/dev/status", func() {}); err != nil {
		t.Fatal(err)
	}
	c.call("delete", args{"id": "dev"})
	w.all.Wait()
	if left := w.keys(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
