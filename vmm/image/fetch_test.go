package image_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"hutch/fs"
	. "hutch/vmm/image/imagetest"
)

// TestFetch has many want the image of a reference at once, one of them for a short
// while: it is pulled once.
func TestFetch(t *testing.T) {
	b := newBench(t)
	Push(t, b.registry+"/a/tiny:1", Tiny(t))
	g := b.gate()
	ref := g.at + "/a/tiny:1"
	short, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.Fetch(short, ref)
		ended <- err
	}()
	<-g.there
	cancel()
	if err := <-ended; err == nil {
		t.Error("a wait that was given up has an image")
	}
	if img, whole, err := b.Find(ref); img.Name != "tiny-1" || whole || err != nil {
		t.Errorf("it is %q, %t, %v", img.Name, whole, err)
	}
	if text := b.Progress("tiny-1"); text != "asked for" {
		t.Errorf("progress is %q", text)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if name, err := b.Fetch(t.Context(), ref); name != "tiny-1" || err != nil {
				t.Errorf("it is %q, %v", name, err)
			}
		})
	}
	close(g.open)
	all.Wait()
	b.says("tiny-1", "status", "ready\n")
	if text := b.Progress("tiny-1"); text != "" {
		t.Errorf("progress is %q", text)
	}
	l := b.found("tiny-1").Launch()
	if l.User != "app" || l.Dir != "/srv" || strings.Join(l.Entrypoint, " ") != "/hello" || strings.Join(l.Cmd, "|") != "-v|two words" {
		t.Errorf("it is run as %+v", l)
	}
}

// TestFetchNames has images whose names would be the same, and one that a person
// pulled.
func TestFetchNames(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("long", 20)
	for _, path := range []string{"a/tiny:1", "b/tiny:1", "c/tiny:1", long + ":1"} {
		Push(t, b.registry+"/"+path, Tiny(t))
	}
	fetch := func(path string) string {
		t.Helper()
		name, err := b.Fetch(t.Context(), b.registry+"/"+path)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	b.made("own")
	if err := b.Pull(t.Context(), "own", b.registry+"/c/tiny:1"); err != nil {
		t.Fatal(err)
	}
	if name := fetch("c/tiny:1"); name != "own" {
		t.Errorf("what is there was pulled as %s", name)
	}
	first, second := fetch("a/tiny:1"), fetch("b/tiny:1")
	if first != "tiny-1" || !strings.HasPrefix(second, "tiny-1-") || fetch("b/tiny:1") != second {
		t.Errorf("names %s, %s", first, second)
	}
	if name := fetch(long + ":1"); fs.CheckWord("image", name) != nil {
		t.Errorf("name %s", name)
	}
}

// TestFetchDigest has an image named by its digest, of a registry that keeps to it and
// of one that does not; what failed is tried again.
func TestFetchDigest(t *testing.T) {
	b := newBench(t)
	img := Tiny(t)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	Push(t, b.registry+"/tiny", img)
	lies := true
	lying := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		if lies && strings.Contains(r.URL.Path, "/manifests/") {
			body = bytes.Replace(body, []byte(`"schemaVersion":2`), []byte(`"schemaVersion": 2`), 1)
		}
		for _, name := range []string{"Content-Type", "Docker-Content-Digest"} {
			w.Header().Set(name, rec.Header().Get(name))
		}
		w.WriteHeader(rec.Code)
		w.Write(body)
	})
	ref := lying + "/tiny:latest@" + digest.String()
	name, err := b.Fetch(t.Context(), ref)
	if err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("%q, %v", name, err)
	}
	lies = false
	name, err = b.Fetch(t.Context(), ref)
	if err != nil || b.found(name).Digest() != digest.String() || !strings.HasPrefix(name, "tiny-"+digest.Hex[:12]) {
		t.Errorf("%q, %v", name, err)
	}
}

// TestFetchRefused says what is to be done where a registry refuses.
func TestFetchRefused(t *testing.T) {
	b := newBench(t)
	secret := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	for ref, want := range map[string]string{
		secret + "/tiny:1":   `permission denied: image "tiny-1" is not pulled: the registry refuses`,
		b.registry + "/no:1": `file does not exist: image "no-1" is not pulled: the registry has no such image`,
		"127.0.0.1:1/x:1":    `connection refused`,
		"a b":                `"a b" is not the name of an image`,
	} {
		name, err := b.Fetch(t.Context(), ref)
		if err == nil || !strings.Contains(fs.Text(err), want) {
			t.Errorf("%s: %q, %v", ref, name, err)
			continue
		}
		t.Log(fs.Text(err))
	}
	if left, err := b.List(); err != nil || len(left) > 1 { // beside the host
		t.Errorf("there is left %q, %v", left, err)
	}
}
