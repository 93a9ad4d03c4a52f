//go:build linux

package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// An npmRegistry is a registry of npm that has what is installed in a folder, and
// packages of the tests. It answers as registry.npmjs.org does, from this machine.
type npmRegistry struct {
	*httptest.Server
	packages map[string]map[string]string // folders, by name and version
	latest   map[string]string

	mu    sync.Mutex // guards what follows
	asked []string
	down  map[string]bool // names of packages that cannot be had now
}

// npm is the registry that the tests' services are told of.
var npm = sync.OnceValue(func() *npmRegistry {
	r := &npmRegistry{packages: map[string]map[string]string{}, latest: map[string]string{}, down: map[string]bool{}}
	r.add(os.Getenv("HUTCH_NPM"))
	r.add("testdata/npm")
	r.Server = httptest.NewUnstartedServer(r)
	if l, err := net.Listen("tcp", elsewhere+":0"); err == nil { // which no guest takes for itself
		r.Listener.Close()
		r.Listener = l
	}
	r.Start()
	return r
})

// add takes the packages below a folder.
func (r *npmRegistry) add(dir string) {
	filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if dir == "" || err != nil || d.Name() != "package.json" {
			return nil
		}
		text, err := os.ReadFile(file)
		var p struct{ Name, Version string }
		if err != nil || json.Unmarshal(text, &p) != nil || p.Name == "" || p.Version == "" {
			return nil
		}
		at := filepath.Dir(file)
		outer := strings.Count(at, "/node_modules/") < 2
		switch {
		case r.packages[p.Name] == nil:
			r.packages[p.Name] = map[string]string{}
			r.latest[p.Name] = p.Version
		case outer && r.latest[p.Name] < p.Version:
			r.latest[p.Name] = p.Version
		}
		if r.packages[p.Name][p.Version] == "" {
			r.packages[p.Name][p.Version] = at
		}
		return nil
	})
}

func (r *npmRegistry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	at, _ := url.PathUnescape(strings.TrimPrefix(q.URL.EscapedPath(), "/"))
	name, file, isFile := strings.Cut(at, "/-/")
	r.mu.Lock()
	r.asked = append(r.asked, at)
	down := r.down[name]
	r.mu.Unlock()
	versions := r.packages[name]
	dir := versions[strings.TrimSuffix(file, ".tgz")]
	switch {
	case down:
		http.Error(w, "closed", http.StatusForbidden)
	case versions == nil || isFile && dir == "":
		http.Error(w, "{}", http.StatusNotFound)
	case isFile:
		w.Write(packed(dir))
	default:
		json.NewEncoder(w).Encode(r.document(name))
	}
}

// document tells of a package.
func (r *npmRegistry) document(name string) map[string]any {
	versions := map[string]any{}
	for version, dir := range r.packages[name] {
		text, _ := os.ReadFile(filepath.Join(dir, "package.json"))
		says := map[string]any{}
		json.Unmarshal(text, &says)
		says["dist"] = map[string]any{"tarball": r.URL + "/" + name + "/-/" + version + ".tgz"}
		versions[version] = says
	}
	return map[string]any{"name": name, "dist-tags": map[string]string{"latest": r.latest[name]}, "versions": versions}
}

// packed returns a folder as a package.
func packed(dir string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		text, _ := os.ReadFile(file)
		rel, _ := filepath.Rel(dir, file)
		t.WriteHeader(&tar.Header{Name: path.Join("package", rel), Mode: 0o755, Size: int64(len(text))})
		t.Write(text)
		return nil
	})
	t.Close()
	z.Close()
	return b.Bytes()
}

// took returns how often the registry was asked for something of a package.
func (r *npmRegistry) took(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked) - len(slices.DeleteFunc(slices.Clone(r.asked), func(at string) bool { return at == name || strings.HasPrefix(at, name+"/") }))
}

// close has a package be there no more, or again.
func (r *npmRegistry) close(name string, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[name] = down
}
