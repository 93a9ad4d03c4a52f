package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"hutch/fs"
	"hutch/vmm/image"
	. "hutch/vmm/image/imagetest"
)

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func zstandard(data []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(data, nil)
}

func TestImport(t *testing.T) {
	dir := t.TempDir()
	Lay(t, dir)
	for _, name := range []string{"root.tar", "layout.tar", "saved.tar"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		Write(t, filepath.Join(dir, name+".gz"), gzipped(data))
		Write(t, filepath.Join(dir, name+".zst"), zstandard(data))
	}
	b := newBench(t)
	for name, kind := range map[string]string{
		"folder": "folder", "root.tar": "tar", "root.tar.gz": "tar", "root.tar.zst": "tar",
		"layout": "oci layout", "layout.tar": "oci archive", "layout.tar.gz": "oci archive", "layout.tar.zst": "oci archive",
		"saved.tar": "docker archive", "saved.tar.gz": "docker archive", "saved.tar.zst": "docker archive",
	} {
		b.made(name)
		if err := b.Import(t.Context(), name, filepath.Join(dir, name)); err != nil {
			t.Error(err)
			continue
		}
		img := b.found(name)
		if got, _ := os.ReadFile(filepath.Join(img.Root, "etc/link")); string(got) != "welcome\n" || img.Kind != kind {
			t.Errorf("%s is %q, etc/link %q", name, img.Kind, got)
		}
		if strings.HasPrefix(kind, "oci") || strings.HasPrefix(kind, "docker") {
			b.says(name, "info", "workdir /srv\n")
		}
	}
	if b.layers() != 4 { // two of the images, the folder and the root.tar
		t.Errorf("%d layers", b.layers())
	}
	b.clean()
}

func TestRefusedImports(t *testing.T) {
	dir := t.TempDir()
	Lay(t, dir)
	data, _ := os.ReadFile(filepath.Join(dir, "root.tar"))
	Write(t, filepath.Join(dir, "short.tar"), Tar(File("long", strings.Repeat("x", 5000)))[:3000])
	Write(t, filepath.Join(dir, "short.tar.gz"), gzipped(data)[:100])
	Write(t, filepath.Join(dir, "empty.tar"), Tar())
	Write(t, filepath.Join(dir, "xz"), []byte("\xfd7zXZ\x00"))
	Write(t, filepath.Join(dir, "hollow.tar"), Tar(File("oci-layout", "{}")))
	Write(t, filepath.Join(dir, "two.tar"), Tar(File("manifest.json", "[{},{}]")))
	Write(t, filepath.Join(dir, "junk.tar"), Tar(File("manifest.json", "{")))
	Write(t, filepath.Join(dir, "out.tar"), Tar(File("manifest.json", `[{"Config":"../../../../../../etc/passwd"}]`)))
	Write(t, filepath.Join(dir, "link.tar"), Tar(Symlink("manifest.json", "/etc/passwd")))
	Save(t, filepath.Join(dir, "digest.tar"), With(t, Tiny(t), func(c *v1.ConfigFile) { c.RootFS.DiffIDs[0].Hex = strings.Repeat("12", 32) }))
	blobs, _ := filepath.Glob(filepath.Join(dir, "layout", "blobs", "sha256", "*"))
	for _, blob := range blobs {
		data, _ := os.ReadFile(blob)
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			Write(t, blob, gzipped(Tar(File("etc/motd", "another"))))
		}
	}
	b := newBench(t)
	b.made("bad")
	for name, want := range map[string]string{
		"none": "file does not exist", "text": "invalid argument: ", "bad.tar": "it leaves the image", "other.tar": "image is for linux/s390x",
		"short.tar": "unexpected EOF", "short.tar.gz": "unexpected EOF", "empty.tar": "is no tar archive, or an empty one", "xz": "only gzip and zstd are known",
		"hollow.tar": "index.json", "two.tar": "there are 2 images in it", "junk.tar": "manifest.json: unexpected end of JSON",
		"out.tar": "path escapes", "link.tar": "path escapes", "digest.tar": "its digest is sha256:", "layout": "its digest is sha256:",
	} {
		err := b.Import(t.Context(), "bad", filepath.Join(dir, name))
		if got := fs.Text(err); err == nil || !strings.Contains(got, want) {
			t.Errorf("%s: error %q, want %q", name, got, want)
		}
		if strings.Contains(fs.Text(err), "archive/tar:") || strings.Contains(fs.Text(err), "stat ") {
			t.Errorf("%s: %q speaks of our calls", name, fs.Text(err))
		}
		b.says("bad", "status", "failed\n")
	}
	for path, want := range map[string]string{
		"relative": "not absolute", filepath.Dir(b.dir): "the images themselves are in", b.dir: "the images themselves are in",
		"/dev/null": "neither a folder nor a file",
	} {
		if err := b.Import(t.Context(), "bad", path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	b.clean()
	if entries, _ := os.ReadDir(filepath.Join(b.dir, "bad")); len(entries) != 1 {
		t.Errorf("of the bad image there is %v", entries)
	}
}

func TestWrongNames(t *testing.T) {
	b := newBench(t)
	none := func() error { return nil }
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", "../x", "none"} {
		for what, err := range map[string]error{
			"pull": b.Pull(t.Context(), name, "x"), "import": b.Import(t.Context(), name, "/x"), "remove": b.Remove(name, none),
		} {
			if !fs.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
		if err := b.Make(name); name != "none" && err == nil {
			t.Errorf("made %q", name)
		}
	}
	for what, err := range map[string]error{
		"pull": b.Pull(t.Context(), image.Host, "x"), "import": b.Import(t.Context(), image.Host, "/x"), "remove": b.Remove(image.Host, none),
	} {
		if !fs.Is(err, fs.ErrNotPermitted) {
			t.Errorf("%s host: %v", what, err)
		}
	}
}

// TestBombs imports what unpacks to more than an image may have.
func TestBombs(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Limit(1<<20, 1000)
	var many []Entry
	for i := range 2000 {
		many = append(many, File(fmt.Sprintf("d/f%d", i), ""))
	}
	zeros := strings.Repeat("\x00", 8<<20)
	half := Tar(File("half", zeros[:600<<10]))
	Write(t, filepath.Join(dir, "many"), gzipped(Tar(many...)))
	Write(t, filepath.Join(dir, "large"), zstandard(Tar(File("large", zeros))))
	Write(t, filepath.Join(dir, "tail"), gzipped(append(Tar(File("f", "x")), zeros...)))
	Write(t, filepath.Join(dir, "gone"), gzipped(Tar(File("f", zeros[:600<<10]), File("f", zeros[:600<<10]))))
	Save(t, filepath.Join(dir, "sum"), Image(t, half, Tar(File("other", zeros[:600<<10]))))
	b.made("bomb")
	for name, want := range map[string]string{
		"many": "image has more than 1000 files", "large": "image is larger than 1048576 bytes", "tail": "unpacks to more than an image may have",
		"gone": "image is larger", "sum": "image is larger",
	} {
		if err := b.Import(t.Context(), "bomb", filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.clean()
}

// TestManyFiles imports a hundred thousand files. In memory, where it can:
// disks take long to make so many.
func TestManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	if dir, err := os.MkdirTemp("/dev/shm", "hutch-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		t.Setenv("TMPDIR", dir)
	}
	dir := t.TempDir()
	var many []Entry
	for i := range 100_000 {
		many = append(many, File(fmt.Sprintf("usr/share/d%d/f%d", i/100, i), "x"))
	}
	Write(t, filepath.Join(dir, "many.tar"), Tar(many...))
	b := newBench(t)
	b.made("many")
	if err := b.Import(t.Context(), "many", filepath.Join(dir, "many.tar")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(b.found("many").Root, "usr/share/d999/f99999")); string(got) != "x" {
		t.Errorf("the last file is %q, %v", got, err)
	}
	b.says("many", "info", "size 100000\nfiles 100000\n")
	if err := b.Remove("many", func() error { return nil }); err != nil {
		t.Error(err)
	}
	b.clean()
}

// TestManifestLast imports an archive of docker's whose list of images comes last, and
// whose other names tell nothing. A root with such a name in it is no archive.
func TestManifestLast(t *testing.T) {
	dir := t.TempDir()
	Lay(t, dir)
	f, err := os.Open(filepath.Join(dir, "saved.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []Entry
	var last Entry
	var config string
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		body, rerr := io.ReadAll(r)
		if err != nil || rerr != nil {
			t.Fatal(err, rerr)
		}
		switch e := File(h.Name, string(body)); {
		case h.Name == "manifest.json":
			last = e
		case !strings.HasSuffix(h.Name, ".tar.gz"):
			config = h.Name
			list = append(list, File("config.json", e.Body))
		default:
			list = append(list, e)
		}
	}
	last.Body = strings.Replace(last.Body, config, "config.json", 1)
	Write(t, filepath.Join(dir, "last.tar"), Tar(append(list, last)...))
	Write(t, filepath.Join(dir, "app.tar"), Tar(File("app", "x"), File("manifest.json", `{"name":"app"}`)))
	b := newBench(t)
	for name, kind := range map[string]string{"last.tar": "docker archive", "app.tar": "tar"} {
		b.made(name)
		if err := b.Import(t.Context(), name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if img := b.found(name); img.Kind != kind {
			t.Errorf("%s is a %q", name, img.Kind)
		}
	}
	b.says("last.tar", "info", "workdir /srv\n")
}
