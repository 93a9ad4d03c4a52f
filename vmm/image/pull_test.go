package image_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"hutch/fs"
	"hutch/vmm/image"
	. "hutch/vmm/image/imagetest"
)

// A bench is a store, with a registry to pull from.
type bench struct {
	testing.TB
	dir      string
	registry string
	*image.Store
}

func newBench(t testing.TB) *bench {
	b := &bench{TB: t, dir: filepath.Join(t.TempDir(), "images"), registry: Registry(t)}
	b.open()
	t.Cleanup(func() { b.Store.Close() })
	return b
}

func (b *bench) open() { b.Store = image.Open(b.dir) }

// made makes an empty image.
func (b *bench) made(name string) {
	b.Helper()
	if err := b.Make(name); err != nil {
		b.Fatal(err)
	}
}

// pulled makes an image of img by the registry.
func (b *bench) pulled(name string, img v1.Image) image.Image {
	b.Helper()
	Push(b, b.registry+"/"+name, img)
	b.made(name)
	if err := b.Pull(b.Context(), name, b.registry+"/"+name); err != nil {
		b.Fatal(err)
	}
	return b.found(name)
}

func (b *bench) found(name string) image.Image {
	b.Helper()
	img, err := b.Lookup(name)
	if err != nil {
		b.Fatal(err)
	}
	return img
}

// layers returns how many layers are stored.
func (b *bench) layers() int {
	entries, _ := os.ReadDir(filepath.Join(b.dir, ".layers"))
	return len(entries)
}

// clean checks that nothing half made is left.
func (b *bench) clean() {
	b.Helper()
	b.Store.Close()
	entries, _ := os.ReadDir(b.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".new-") || strings.HasPrefix(e.Name(), ".gone-") {
			b.Errorf("%s is left", e.Name())
		}
	}
}

func (b *bench) says(name, file, want string) {
	b.Helper()
	text, err := b.Status(name)
	if file == "info" {
		text, err = b.Info(name)
	}
	if err != nil || !strings.Contains("\n"+text, "\n"+want) {
		b.Errorf("%s of %s: %q, %v; want %q", file, name, text, err, want)
	}
}

func TestPull(t *testing.T) {
	b := newBench(t)
	img := b.pulled("tiny", Tiny(t))
	if got, err := os.ReadFile(filepath.Join(img.Root, "etc/link")); string(got) != "welcome\n" {
		t.Errorf("etc/link is %q, %v", got, err)
	}
	for _, name := range []string{"etc/gone", "etc/.wh.gone", "dev/null"} {
		if _, err := os.Lstat(filepath.Join(img.Root, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	for _, want := range []string{
		"kind registry\n", "source " + b.registry + "/tiny:latest\n", "digest sha256:", "size 9\n", "files 6\n", "skipped 1\n", "layers 2\n",
		"architecture " + runtime.GOARCH + "\n", "os linux\n", "entrypoint /hello\n", "cmd -v 'two words'\n", "env 'PLACE=it''s home'\n", "user app\n", "workdir /srv\n",
	} {
		b.says("tiny", "info", want)
	}
	b.says("tiny", "status", "ready\n")
	b.clean()
}

// TestLayersAreShared pulls two images with a layer in common, and removes them.
func TestLayersAreShared(t *testing.T) {
	b := newBench(t)
	base := Tar(File("base", "same"))
	one := b.pulled("one", Image(t, base, Tar(File("one", "1"))))
	two := b.pulled("two", Image(t, base, Tar(File("two", "2"))))
	for _, img := range []image.Image{one, two} {
		if st, err := os.Stat(filepath.Join(img.Root, "base")); err != nil || st.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("base has not one name in %s: %v", img.Root, err)
		}
	}
	if b.layers() != 3 {
		t.Errorf("%d layers", b.layers())
	}
	unused := func() error { return nil }
	if err := b.Remove("one", unused); err != nil || b.layers() != 2 {
		t.Errorf("%v; %d layers", err, b.layers())
	}
	if got, _ := os.ReadFile(filepath.Join(two.Root, "base")); string(got) != "same" {
		t.Errorf("base is %q", got)
	}
	busy := fmt.Errorf("%w: used", fs.ErrBusy)
	if err := b.Remove("two", func() error { return busy }); !errors.Is(err, fs.ErrBusy) || b.layers() != 2 {
		t.Errorf("%v; %d layers", err, b.layers())
	}
	if err := b.Remove("two", unused); err != nil || b.layers() != 0 {
		t.Errorf("%v; %d layers", err, b.layers())
	}
	b.clean()
}

// refused pulls ref, and checks why it cannot be had.
func (b *bench) refused(ref, want string) {
	b.Helper()
	if !b.Has("bad") {
		b.made("bad")
	}
	err := b.Pull(b.Context(), "bad", ref)
	if got := fs.Text(err); !strings.Contains(got, want) {
		b.Errorf("%s: error %q, want %q", ref, got, want)
	}
	if _, err := b.Lookup("bad"); !errors.Is(err, fs.ErrNotExist) {
		b.Errorf("%s: it can be used: %v", ref, err)
	}
	b.says("bad", "status", "failed\n")
}

func TestRefusedPulls(t *testing.T) {
	b := newBench(t)
	at := func(name string) string { return b.registry + "/" + name + ":latest" }
	push := func(name string, img v1.Image) { Push(t, at(name), img) }
	push("arch", With(t, Tiny(t), func(c *v1.ConfigFile) { c.Architecture = "s390x" }))
	b.refused(at("arch"), `not supported: image "bad" is not pulled: image is for linux/s390x; this machine is linux/`)
	push("os", With(t, Tiny(t), func(c *v1.ConfigFile) { c.OS = "windows" }))
	b.refused(at("os"), "image is for windows/")
	push("digests", With(t, Tiny(t), func(c *v1.ConfigFile) { c.RootFS.DiffIDs = c.RootFS.DiffIDs[:1] }))
	b.refused(at("digests"), "image has 2 layers, and digests of 1")
	push("wrong", With(t, Tiny(t), func(c *v1.ConfigFile) { c.RootFS.DiffIDs[1].Hex = strings.Repeat("ab", 32) }))
	b.refused(at("wrong"), "layer sha256:"+strings.Repeat("ab", 32)+": its digest is sha256:")
	push("evil", Image(t, Tar(File("ok", "")), Tar(File("../evil", ""))))
	b.refused(at("evil"), `entry "../evil": it leaves the image`)
	push("truncated", Image(t, Tar(File("a", strings.Repeat("x", 5000)))[:3000]))
	b.refused(at("truncated"), "unexpected EOF")
	chart, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte("x"), "application/vnd.cncf.helm.chart.content.v1.tar+gzip"))
	if err != nil {
		t.Fatal(err)
	}
	push("chart", chart)
	b.refused(at("chart"), "it is no container image: a layer of it is application/vnd.cncf.helm")
	b.refused(at("none"), "file does not exist: image \"bad\" is not pulled: the registry has no such image")
	b.refused("127.0.0.1:1/x", "connection refused")
	b.clean()
}

func TestIndex(t *testing.T) {
	b := newBench(t)
	add := func(arch, text string) mutate.IndexAddendum {
		img := With(t, Image(t, Tar(File("which", text))), func(c *v1.ConfigFile) { c.Architecture = arch })
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{MediaType: types.DockerManifestSchema2, Platform: &v1.Platform{OS: "linux", Architecture: arch}}}
	}
	push := func(ref string, adds ...mutate.IndexAddendum) string {
		r, _ := name.ParseReference(b.registry + "/" + ref)
		if err := remote.WriteIndex(r, mutate.AppendManifests(empty.Index, adds...)); err != nil {
			t.Fatal(err)
		}
		return r.Name()
	}
	b.made("multi")
	if err := b.Pull(t.Context(), "multi", push("multi", add("s390x", "other"), add(runtime.GOARCH, "ours"))); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(b.found("multi").Root, "which")); string(got) != "ours" {
		t.Errorf("which is %q", got)
	}
	b.refused(push("others", add("s390x", "1"), add("riscv64", "2")), "image is for [linux/riscv64 linux/s390x]; this machine is linux/")
	b.refused(push("nothing"), "there is no image in it")
}

// proxy stands before the registry and may change what it answers.
func (b *bench) proxy(change func(w http.ResponseWriter, r *http.Request, next http.Handler)) string {
	to, _ := url.Parse("http://" + b.registry)
	next := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { change(w, r, next) }))
	b.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func isBlob(r *http.Request) bool {
	return r.Method == "GET" && strings.Contains(r.URL.Path, "/blobs/")
}

// TestLyingRegistry pulls from a registry that sends other bytes than it should.
func TestLyingRegistry(t *testing.T) {
	b := newBench(t)
	Push(t, b.registry+"/tiny", Tiny(t))
	lying := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isBlob(r) {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		data := rec.Body.Bytes()
		data[len(data)-1] ^= 1
		w.Write(data)
	})
	b.refused(lying+"/tiny", "sha256")
	short := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isBlob(r) {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	})
	b.refused(short+"/tiny", "")
	secret := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
	b.refused(secret+"/tiny", "permission denied: image \"bad\" is not pulled: the registry refuses")
	if b.layers() != 0 {
		t.Errorf("%d layers are stored", b.layers())
	}
	b.clean()
}

// TestSilentRegistry pulls from registries that fall silent.
func TestSilentRegistry(t *testing.T) {
	b := newBench(t)
	b.Stall(50 * time.Millisecond)
	Push(t, b.registry+"/tiny", Tiny(t))
	b.refused(b.gate().at+"/tiny", "timed out: image \"bad\" is not pulled: the registry sends nothing for 50ms")
	mute := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) { <-r.Context().Done() })
	b.refused(mute+"/tiny", "timed out: image \"bad\" is not pulled: the registry sends nothing for 50ms")
	half := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isBlob(r) {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()))
		w.Write(rec.Body.Bytes()[:20])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	b.refused(half+"/tiny", "timed out")
	b.clean()
}

// TestOneLayerFails waits for no other layer when one has failed.
func TestOneLayerFails(t *testing.T) {
	b := newBench(t)
	img := Image(t, Tar(File("one", "1")), Tar(File("two", "2")))
	layers, _ := img.Layers()
	bad, _ := layers[1].Digest()
	good, _ := layers[0].Digest()
	Push(t, b.registry+"/x", img)
	there := make(chan struct{})
	at := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case isBlob(r) && strings.Contains(r.URL.Path, good.String()):
			close(there)
			<-r.Context().Done()
		case isBlob(r) && strings.Contains(r.URL.Path, bad.String()):
			<-there
			w.WriteHeader(http.StatusTeapot)
		default:
			next.ServeHTTP(w, r)
		}
	})
	b.refused(at+"/x", "418")
	b.clean()
}

// TestCredentials pulls with what the docker configuration says.
func TestCredentials(t *testing.T) {
	b := newBench(t)
	Push(t, b.registry+"/tiny", Tiny(t))
	guarded := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if user, pass, _ := r.BasicAuth(); user != "ann" || pass != "secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	b.refused(guarded+"/tiny", "permission denied")
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	Write(t, filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":"YW5uOnNlY3JldA=="}}}`, guarded))
	b.made("good")
	if err := b.Pull(t.Context(), "good", guarded+"/tiny"); err != nil {
		t.Error(err)
	}
}

// A gate holds back the blobs of a registry.
type gate struct {
	*bench
	at    string        // the registry
	there chan struct{} // a blob is asked for
	open  chan struct{}
}

func (b *bench) gate() *gate {
	g := &gate{bench: b, there: make(chan struct{}, 100), open: make(chan struct{})}
	g.at = b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isBlob(r) {
			g.there <- struct{}{}
			select {
			case <-g.open:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	return g
}

func TestPullGoesOnAlone(t *testing.T) {
	b := newBench(t)
	Push(t, b.registry+"/tiny", Tiny(t))
	g := b.gate()
	b.made("tiny")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Pull(ctx, "tiny", g.at+"/tiny") }()
	<-g.there
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was given up: %v", err)
	}
	b.says("tiny", "status", "being pulled\n")
	for what, err := range map[string]error{
		"pull": b.Pull(t.Context(), "tiny", g.at+"/tiny"), "import": b.Import(t.Context(), "tiny", "/tmp"),
		"remove": b.Remove("tiny", func() error { return nil }),
	} {
		if !strings.HasPrefix(fs.Text(err), `file in use: image "tiny" is being pulled`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := b.Lookup("tiny"); fs.Text(err) != `file in use: image "tiny" is being pulled` {
		t.Errorf("lookup: %v", err)
	}
	close(g.open)
	b.Wait(t.Context(), "tiny")
	b.says("tiny", "status", "ready\n")
}

func TestCancel(t *testing.T) {
	b := newBench(t)
	Push(t, b.registry+"/tiny", Tiny(t))
	g := b.gate()
	b.made("tiny")
	ended := make(chan error, 1)
	go func() { ended <- b.Pull(t.Context(), "tiny", g.at+"/tiny") }()
	<-g.there
	if err := b.Cancel(t.Context(), "tiny"); err != nil {
		t.Error(err)
	}
	if err := <-ended; fs.Text(err) != "interrupted: cancelled" {
		t.Errorf("pull: %v", err)
	}
	b.says("tiny", "status", "failed\nreason interrupted: cancelled\n")
	close(g.open)
	if err := b.Pull(t.Context(), "tiny", g.at+"/tiny"); err != nil {
		t.Error(err)
	}
	b.clean()
}

// TestEnd closes the store in the middle of a pull, and opens it again.
func TestEnd(t *testing.T) {
	b := newBench(t)
	Push(t, b.registry+"/tiny", Tiny(t))
	g := b.gate()
	b.made("tiny")
	ended := make(chan error, 1)
	go func() { ended <- b.Pull(t.Context(), "tiny", g.at+"/tiny") }()
	<-g.there
	b.clean()
	if err := <-ended; fs.Text(err) != "interrupted: hutchd is ending" {
		t.Errorf("pull: %v", err)
	}
	b.open()
	b.says("tiny", "status", "failed\nreason interrupted: hutchd is ending\n")
}

// TestKilled opens a store that was left as a killed process leaves it.
func TestKilled(t *testing.T) {
	b := newBench(t)
	b.pulled("whole", Tiny(t))
	b.Store.Close()
	for _, name := range []string{".new-1/tree", ".gone-2/it", ".layers/" + strings.Repeat("ab", 32), "half/rootfs/etc", "broken"} {
		if err := os.MkdirAll(filepath.Join(b.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	Write(t, filepath.Join(b.dir, "half", "image.json"), []byte(`{"state":"failed","reason":"hutchd ended while it was being pulled"}`))
	Write(t, filepath.Join(b.dir, "broken", "image.json"), []byte(`{"state":`))
	b.open()
	b.says("half", "status", "failed\nreason hutchd ended")
	b.says("broken", "status", "failed\nreason image.json does not parse, kept as image.json.broken")
	b.found("whole")
	if b.layers() != 2 {
		t.Errorf("%d layers", b.layers())
	}
	if _, err := os.Stat(filepath.Join(b.dir, "half", "rootfs")); err == nil {
		t.Error("half an image has files")
	}
	b.clean()
}

// TestRetryKeepsLayers pulls again after one of two layers failed.
func TestRetryKeepsLayers(t *testing.T) {
	b := newBench(t)
	img := Image(t, Tar(File("one", "1")), Tar(File("two", "2")))
	layers, _ := img.Layers()
	bad, _ := layers[1].Digest()
	good, _ := layers[0].Digest()
	Push(t, b.registry+"/x", img)
	var broken atomic.Bool
	var asked atomic.Int32
	done := make(chan struct{})
	broken.Store(true)
	at := b.proxy(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case isBlob(r) && strings.Contains(r.URL.Path, good.String()):
			asked.Add(1)
			next.ServeHTTP(w, r)
			if asked.Load() == 1 {
				close(done)
			}
		case isBlob(r) && strings.Contains(r.URL.Path, bad.String()) && broken.Load():
			<-done
			for b.layers() == 0 { // until the other one is stored
				runtime.Gosched()
			}
			w.WriteHeader(http.StatusTeapot)
		default:
			next.ServeHTTP(w, r)
		}
	})
	b.refused(at+"/x", "i/o error")
	broken.Store(false)
	if err := b.Pull(t.Context(), "bad", at+"/x"); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 1 {
		t.Errorf("the whole layer came %d times", asked.Load())
	}
}

// BenchmarkPull pulls an image of three layers of 10 MB that do not compress.
func BenchmarkPull(b *testing.B) {
	img, err := random.Image(10<<20, 3)
	if err != nil {
		b.Fatal(err)
	}
	img = With(b, img, func(c *v1.ConfigFile) { c.OS, c.Architecture = "linux", runtime.GOARCH })
	n := newBench(b)
	Push(b, n.registry+"/big", img)
	b.SetBytes(30 << 20)
	for b.Loop() {
		n.made("big")
		if err := n.Pull(b.Context(), "big", n.registry+"/big"); err != nil {
			b.Fatal(err)
		}
		if err := n.Remove("big", func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
