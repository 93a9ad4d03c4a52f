// Package imagetest makes container images, archives of them and a registry
// in this process, for tests of what pulls and imports.
package imagetest

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// An Entry is one entry of a tar archive.
type Entry struct {
	tar.Header
	Body string
}

// File returns a file.
func File(name, body string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, body}
}

// Program returns an executable file.
func Program(name, body string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, body}
}

// Dir returns a folder.
func Dir(name string, mode int64) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, ""}
}

// Symlink returns a symbolic link.
func Symlink(name, target string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, ""}
}

// Link returns a hard link.
func Link(name, target string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

// Device returns a character device.
func Device(name string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeChar, Name: name, Mode: 0o666, Devmajor: 1, Devminor: 3}, ""}
}

// Tar returns a tar archive.
func Tar(entries ...Entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.Body))
		if err := w.WriteHeader(&e.Header); err != nil {
			panic(err)
		}
		if _, err := io.WriteString(w, e.Body); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Image returns an image for this machine with the layers, the lowest first.
func Image(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	img := v1.Image(empty.Image)
	for _, l := range layers {
		made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil })
		check(t, err)
		img, err = mutate.AppendLayers(img, made)
		check(t, err)
	}
	return With(t, img, func(c *v1.ConfigFile) {
		c.OS, c.Architecture = "linux", runtime.GOARCH
		c.Config.Env = []string{"PATH=/tiny/bin", "COLOUR=of the image", "PLACE=it's home"}
		c.Config.Entrypoint, c.Config.Cmd = []string{"/hello"}, []string{"-v", "two words"}
		c.Config.WorkingDir, c.Config.User = "/srv", "app"
	})
}

// With returns img with its config changed.
func With(t testing.TB, img v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	c, err := img.ConfigFile()
	check(t, err)
	c = c.DeepCopy()
	change(c)
	img, err = mutate.ConfigFile(img, c)
	check(t, err)
	return img
}

// WithEnv returns an image that sets a variable, K=V, more.
func WithEnv(t testing.TB, img v1.Image, kv string) v1.Image {
	return With(t, img, func(c *v1.ConfigFile) { c.Config.Env = append(c.Config.Env, kv) })
}

// Tiny returns an image of two layers without any program.
func Tiny(t testing.TB) v1.Image {
	t.Helper()
	return Image(t,
		Tar(Dir("etc", 0o755), File("etc/motd", "welcome\n"), File("etc/gone", "x"), Device("dev/null")),
		Tar(File("etc/.wh.gone", ""), Symlink("etc/link", "motd")))
}

// Registry serves a registry on the loopback until the test ends, and returns
// its host and port.
func Registry(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// Push puts img into a registry.
func Push(t testing.TB, ref string, img v1.Image) {
	t.Helper()
	r, err := name.ParseReference(ref)
	check(t, err)
	check(t, remote.Write(r, img))
}

// Lay puts an image, and what is none, into dir in every form that can be
// imported: folder, root.tar, layout, layout.tar, saved.tar, other.tar for another kind
// of machine, bad.tar and text.
func Lay(t testing.TB, dir string) {
	t.Helper()
	folder := filepath.Join(dir, "folder")
	check(t, os.MkdirAll(filepath.Join(folder, "etc"), 0o755))
	Write(t, filepath.Join(folder, "etc", "motd"), []byte("welcome\n"))
	check(t, os.Symlink("motd", filepath.Join(folder, "etc", "link")))
	Write(t, filepath.Join(dir, "root.tar"), Tar(File("./etc/motd", "welcome\n"), Symlink("./etc/link", "motd")))
	img := Tiny(t)
	p, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	check(t, err)
	check(t, p.AppendImage(img))
	Write(t, filepath.Join(dir, "layout.tar"), pack(t, filepath.Join(dir, "layout")))
	Save(t, filepath.Join(dir, "saved.tar"), img)
	Save(t, filepath.Join(dir, "other.tar"), With(t, img, func(c *v1.ConfigFile) { c.Architecture = "s390x" }))
	Write(t, filepath.Join(dir, "bad.tar"), Tar(File("../../escaped", "x")))
	Write(t, filepath.Join(dir, "text"), []byte("no archive\n"))
}

// Save writes img as docker save does.
func Save(t testing.TB, path string, img v1.Image) {
	t.Helper()
	tag, err := name.NewTag("tiny:latest")
	check(t, err)
	check(t, tarball.WriteToFile(path, tag, img))
}

// Write writes a file.
func Write(t testing.TB, path string, data []byte) {
	t.Helper()
	check(t, os.WriteFile(path, data, 0o644))
}

func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	check(t, w.AddFS(os.DirFS(dir)))
	check(t, w.Close())
	return b.Bytes()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Variables returns those of the scripts that pull and import images:
// $DRIVER, $REGISTRY, a registry with the images tiny and other, the latter for
// another architecture, and $IMAGES, a folder of images to import.
func Variables(t testing.TB, driver string) []string {
	t.Helper()
	dir := t.TempDir()
	Lay(t, dir)
	registry := Registry(t)
	tiny := Tiny(t)
	Push(t, registry+"/tiny:latest", tiny)
	Push(t, registry+"/other:latest", With(t, tiny, func(c *v1.ConfigFile) { c.Architecture = "s390x" }))
	return []string{"$DRIVER", driver, "$REGISTRY", registry, "$IMAGES", dir}
}
