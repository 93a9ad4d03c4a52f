package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hutch/fs"
	"hutch/profiles/registry/registrytest"
)

func names(list []*Entry) (all []string) {
	for _, e := range list {
		all = append(all, e.Name)
	}
	return all
}

var ours = []string{"everything", "filesystem", "memory", "sequential-thinking"}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if got := names(s.List()); !slices.Equal(got, ours) {
		t.Errorf("built-in: %q", got)
	}
	file := filepath.Join(t.TempDir(), "a 'file'.json")
	if err := os.WriteFile(file, []byte("["+registrytest.NPM("memory")+","+registrytest.NPM("own/a")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	site := &registrytest.Site{Servers: []string{registrytest.NPM("io.example/b"), registrytest.NPM("OWN/A"), registrytest.NPM("Everything")}}
	base := registrytest.Serve(t, site)
	for _, o := range []Origin{{"file", file}, {"api", base}, {"file", file}} {
		if err := s.Add(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(s.List()); !slices.Equal(got, []string{"everything", "filesystem", "io.example/b", "memory", "own/a", "sequential-thinking"}) {
		t.Errorf("all: %q", got)
	}
	if e, err := s.Lookup("memory"); err != nil || e.Source != "builtin" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, name := range []string{"Memory", "memry", "b", "none"} {
		if _, err := s.Lookup(name); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "did you mean") != (name != "none") {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := "source builtin\nsource file " + fs.Quote(file) + "\nsource api " + base + "\n"
	if got := s.Sources(); got != want {
		t.Errorf("sources:\n%swant:\n%s", got, want)
	}
	status := s.Status()
	for _, line := range []string{
		"source builtin\nstate ready\nentries 4\nrefused 0\n",
		"state ready\nentries 1\nread ", "refused 1\nwhy \"memory\": the name is that of an entry of source builtin, which counts\n",
		"refused 2\nwhy \"OWN/A\": the name is that of an entry of source file ",
	} {
		if !strings.Contains(status, line) {
			t.Errorf("status has no %q:\n%s", line, status)
		}
	}
	// Another process has what these said, and asks nobody for it yet.
	s.Close()
	asked := site.Asked.Load()
	s = open(t, dir)
	if got := names(s.List()); len(got) != 6 || site.Asked.Load() != asked {
		t.Errorf("again: %q, after %d requests more", got, site.Asked.Load()-asked)
	}
	if s.Sources() != want {
		t.Errorf("again:\n%s", s.Sources())
	}
	if err := s.Forget(base); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(base); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got := names(s.List()); len(got) != 5 {
		t.Errorf("without the API: %q", got)
	}
	if err := s.Add(t.Context(), Origin{Kind: "builtin"}); err != nil {
		t.Fatal(err)
	}
	if got := names(s.List()); !slices.Equal(got, ours) {
		t.Errorf("built-in alone: %q", got)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if len(left) != 0 {
		t.Errorf("left on the disk: %q", left)
	}
}

// A registry that does not answer holds up nobody, and what it said before stays.
func TestSlowRegistry(t *testing.T) {
	dir := t.TempDir()
	hold, arrived := make(chan struct{}), make(chan struct{})
	site := &registrytest.Site{Servers: []string{registrytest.NPM("io.example/b")}}
	site.Answer = func(w http.ResponseWriter, n int) bool {
		if n == 1 {
			return false
		}
		if n == 2 {
			close(arrived)
		}
		<-hold
		http.Error(w, "", http.StatusServiceUnavailable)
		return true
	}
	base := registrytest.Serve(t, site)
	s := open(t, dir)
	if err := s.Add(t.Context(), Origin{"api", base}); err != nil {
		t.Fatal(err)
	}
	src := s.sources[1]
	if err := s.wait(t.Context(), src.under(s)); err != nil {
		t.Fatal(err)
	}
	refreshed := make(chan error)
	go func() { refreshed <- s.Refresh(context.Background()) }()
	<-arrived
	if got := names(s.List()); len(got) != 5 {
		t.Errorf("while it does not answer: %q", got)
	}
	if !strings.Contains(s.Status(), "state reading\n") {
		t.Error(s.Status())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	close(hold)
	if err := <-refreshed; err == nil || !strings.Contains(err.Error(), "HTTP 503") {
		t.Error(err)
	}
	if got := names(s.List()); len(got) != 5 || !strings.Contains(s.Status(), "state failed: i/o error: it answers HTTP 503 Service Unavailable\nentries 1\n") {
		t.Errorf("%q\n%s", got, s.Status())
	}
	s.now = func() time.Time { return time.Now().Add(again + time.Second) }
	asked := site.Asked.Load()
	s.List()
	if err := s.wait(t.Context(), src.under(s)); err != nil || site.Asked.Load() == asked {
		t.Errorf("%v: it is not tried again", err)
	}
}

// A source that did not answer in time while a refresh waited is not asked once
// more, nor told of if it was forgotten meanwhile.
func TestRefreshLate(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, t.TempDir())
			o := Origin{"url", "http://127.0.0.1:1/refuses"}
			src := &source{Origin: o, reading: make(chan struct{})}
			s.sources = append(s.sources, src)
			refreshed := make(chan error)
			go func() { refreshed <- s.Refresh(t.Context()) }()
			synctest.Wait()
			if forgotten {
				if err := s.Forget(o.Where); err != nil {
					t.Error(err)
				}
			}
			under := src.under(s)
			s.finish(src, nil, fmt.Errorf("%w: no whole answer", fs.ErrTimedOut))
			close(under)
			if err := <-refreshed; forgotten && err != nil || !forgotten && !errors.Is(err, fs.ErrTimedOut) {
				t.Errorf("forgotten %t: %v", forgotten, err)
			}
		})
	}
}

// Close ends a reading that is under way.
func TestClose(t *testing.T) {
	asked := make(chan struct{})
	base := registrytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	s := open(t, t.TempDir())
	if err := s.Add(t.Context(), Origin{"url", base}); err != nil {
		t.Fatal(err)
	}
	<-asked
	s.Close()
	s.List()
	if err := s.Add(t.Context(), Origin{"url", base + "/x"}); err != nil {
		t.Error(err)
	}
}

func TestTogether(t *testing.T) {
	s := open(t, t.TempDir())
	base := registrytest.Serve(t, &registrytest.Site{Servers: []string{registrytest.NPM("io.example/b")}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			where := fmt.Sprintf("%s/%d", base, i%3)
			s.Add(t.Context(), Origin{"api", where})
			s.Refresh(t.Context()) // the path is not found
			s.Search("a")
			s.Status()
			s.Forget(where)
			s.List()
		})
	}
	all.Wait()
	if s.Sources() != "source builtin\n" {
		t.Error(s.Sources())
	}
}

// What is set while another source is forgotten stays set.
func TestAddWhileForgetting(t *testing.T) {
	s := open(t, t.TempDir())
	const n = 8
	where := func(i int) Origin { return Origin{"url", fmt.Sprintf("http://127.0.0.1:1/%02d", i)} }
	for i := range n {
		if err := s.Add(t.Context(), where(i)); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { s.Forget(where(i).Where) })
		all.Go(func() { s.Add(t.Context(), where(n+i)) })
	}
	all.Wait()
	for i := range 2 * n {
		if set := s.find(where(i)) >= 0; set != (i >= n) {
			t.Errorf("%s: set is %t", where(i), set)
		}
	}
}

func TestBadSources(t *testing.T) {
	s := open(t, t.TempDir())
	for _, o := range []Origin{{"file", "/none"}, {"file", "x"}, {"url", "http://a.example"}} {
		if err := s.Add(t.Context(), o); err == nil {
			t.Errorf("%s is set", o)
		}
	}
	for i := range maxSources {
		if err := s.Add(t.Context(), Origin{"url", fmt.Sprintf("http://127.0.0.1:1/%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "one.json")
	if err := os.WriteFile(file, []byte(registrytest.NPM("own/a")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Origin{{"url", "http://127.0.0.1:1/more"}, {"file", file}} {
		if err := s.Add(t.Context(), o); !errors.Is(err, fs.ErrNoSpace) {
			t.Errorf("%s: %v", o, err)
		}
		if _, err := os.Stat(s.keptPath(o)); err == nil {
			t.Errorf("%s is not set, and what it says is kept", o)
		}
	}
}

func TestSearch(t *testing.T) {
	s := open(t, t.TempDir())
	for words, want := range map[string]string{
		"":                      "everything filesystem memory sequential-thinking",
		"MEMORY":                "memory",
		"read files":            "filesystem",
		"graph":                 "memory",
		"files":                 "filesystem",
		"step":                  "sequential-thinking",
		"reference e":           "everything filesystem memory sequential-thinking",
		"thinking":              "sequential-thinking",
		"get-sum":               "everything",
		"nothing has this":      "",
		"create_entities graph": "memory",
	} {
		if got := strings.Join(names(s.Search(words)), " "); got != want {
			t.Errorf("%q finds %q, want %q", words, got, want)
		}
	}
}
