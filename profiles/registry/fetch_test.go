package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/profiles/registry/registrytest"
)

func TestPages(t *testing.T) {
	site := &registrytest.Site{}
	for i := range 250 {
		site.Servers = append(site.Servers, registrytest.NPM(fmt.Sprintf("io.example/s%03d", i)))
	}
	base := registrytest.Serve(t, site)
	for _, where := range []string{base, base + "/", base + "/v0.1"} {
		site.Asked.Store(0)
		sh, err := fetcher{max: maxBytes}.read(t.Context(), Origin{"api", where})
		if err != nil {
			t.Fatal(err)
		}
		if len(sh.Entries) != 250 || sh.Refused.Count != 0 || site.Asked.Load() != 3 {
			t.Errorf("%s: %d entries, %d refused, by %d requests", where, len(sh.Entries), sh.Refused.Count, site.Asked.Load())
		}
		if q := site.Query.Load(); q != "cursor=200&limit=100&version=latest" {
			t.Errorf("asked %q", q)
		}
	}
}

// Registries that lie are refused, and soon.
func TestLyingRegistries(t *testing.T) {
	inside := registrytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"servers": []}`) }))
	redirect := func(to string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	for _, test := range []struct {
		name string
		kind string
		site http.Handler
		want string
	}{
		{"cursors without end", "api", &registrytest.Site{Servers: []string{registrytest.NPM("io.example/a")}, Endless: true}, "its cursor \"0\" comes again"},
		{"new cursors without end", "api", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"servers": [], "metadata": {"nextCursor": "%sx"}}`, r.URL.Query().Get("cursor"))
		}), "more than"},
		{"a gigabyte", "url", http.HandlerFunc(gigabyte), "it has more than 100000 bytes"},
		{"a gigabyte in a page", "api", http.HandlerFunc(gigabyte), "it has more than 100000 bytes"},
		{"a gigabyte that is a few bytes", "url", http.HandlerFunc(bomb), "it has more than 100000 bytes"},
		{"a gigabyte over all pages", "api", &registrytest.Site{Answer: func(w http.ResponseWriter, n int) bool {
			fmt.Fprintf(w, `{"x": %q, "servers": [], "metadata": {"nextCursor": "%d"}}`, strings.Repeat("x", 90000), n)
			return true
		}}, "its pages have more than 800000 bytes"},
		{"a redirect to a private address", "url", redirect("https://169.254.169.254/latest"), "169.254.169.254 is not a public address"},
		{"a redirect to another port of this machine", "url", redirect(inside), "redirected to http://127.0.0.1"},
		{"a redirect to this machine by name", "url", redirect("https://localhost:1/"), "is not a public address"},
		{"redirects without end", "url", redirect("/more"), "more than 5 redirects"},
		{"another scheme", "url", redirect("file:///etc/passwd"), "redirected to file://"},
		{"no JSON", "url", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }), "invalid JSON"},
		{"half of it", "url", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"servers": [`) }), "JSON"},
		{"nested without end", "url", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("[", 90000))
		}), "nested deeper than"},
		{"another document", "url", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a": 1}`) }), "is no registry"},
		{"an error", "api", http.NotFoundHandler(), "it answers HTTP 404 Not Found"},
		{"fewer bytes than it says", "url", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"servers": []}`)
		}), "unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sh, err := fetcher{max: 100000}.read(t.Context(), Origin{test.kind, registrytest.Serve(t, test.site)})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v; want %q", sh, err, test.want)
			}
		})
	}
}

func gigabyte(w http.ResponseWriter, _ *http.Request) {
	block := bytes.Repeat([]byte(" "), 1<<20)
	for range 1 << 10 {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			return
		}
	}
	z.Close()
}

// A registry elsewhere is reached over TLS alone, by a certificate of its name;
// its redirect leads nowhere on this machine.
func TestTLS(t *testing.T) {
	site := httptest.NewTLSServer(&registrytest.Site{Servers: []string{registrytest.NPM("io.example/a")}})
	defer site.Close()
	o := Origin{"api", site.URL}
	if _, err := (fetcher{max: maxBytes}).read(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
	f := fetcher{max: maxBytes, roots: site.Client().Transport.(*http.Transport).TLSClientConfig}
	if sh, err := f.read(t.Context(), o); err != nil || len(sh.Entries) != 1 {
		t.Errorf("%v, %v", sh, err)
	}
}

// A reading ends with its context, whatever the registry does.
func TestReadEnds(t *testing.T) {
	asked := make(chan struct{})
	site := registrytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := (fetcher{max: maxBytes}).read(ctx, Origin{"url", site}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := fetcher{max: 1000}
	pipe, big := filepath.Join(dir, "pipe"), filepath.Join(dir, "big")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 1<<30); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{pipe: fs.ErrInvalid, big: fs.ErrTooLarge, dir: fs.ErrInvalid, filepath.Join(dir, "none"): fs.ErrNotExist, "/dev/zero": fs.ErrInvalid} {
		if _, err := f.read(t.Context(), Origin{"file", path}); !fs.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOrigins(t *testing.T) {
	for text, ok := range map[string]bool{
		"builtin": true, "builtin x": false, "file /a": true, "file a": false, "url https://a.example/x?y": true, "api https://a.example": true,
		"url http://a.example": false, "url http://127.0.0.1:8080/x": true, "url http://localhost/x": true, "url http://[::1]:1/": true,
		"url https://u:p@a.example/": false, "api https://a.example/?q": false, "url ftp://a.example": false, "url https://": false, "git x": false,
		"url http://localhost.evil.example/": false, "url http://127.0.0.1.evil.example/": false,
	} {
		words := strings.Fields(text + " ")
		o := Origin{Kind: words[0]}
		if len(words) > 1 {
			o.Where = words[1]
		}
		if err := o.Check(); (err == nil) != ok {
			t.Errorf("source %s: %v", text, err)
		}
	}
	if err := (Origin{"file", "/a\nb"}).Check(); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a source of two lines: %v", err)
	}
}
