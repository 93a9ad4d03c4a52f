package tree_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"hutch/cmd/hutchd/tree"
	"hutch/fs"
)

// packer is a service whose VM dev has more in its workspace than a reader of its
// archive takes at once.
type packer struct {
	*testing.T
	*tree.Server
	state string
}

func newPacker(t *testing.T) *packer {
	p := &packer{T: t, state: t.TempDir()}
	var err error
	if p.Server, err = newServer(p.state); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	p.mkdir("dev")
	data := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	if err := os.WriteFile(filepath.Join(p.state, "vm/dev/work/f"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *packer) walk(name string) fs.Node {
	p.Helper()
	n := p.Root()
	for part := range strings.SplitSeq(name, "/") {
		var err error
		if n, err = n.Walk(p.Context(), part); err != nil {
			p.Fatalf("%s: %v", name, err)
		}
	}
	return n
}

func (p *packer) mkdir(vm string) {
	p.Helper()
	if _, err := p.walk("vm").Mkdir(p.Context(), vm, 0o755); err != nil {
		p.Fatal(err)
	}
}

func (p *packer) rmdir(vm string) error { return p.walk("vm").Remove(p.Context(), vm, true) }

func (p *packer) open(name string, flags int) fs.Handle {
	p.Helper()
	h, err := p.walk(name).Open(p.Context(), flags)
	if err != nil {
		p.Fatalf("%s: %v", name, err)
	}
	return h
}

func (p *packer) ctl(vm, message string) {
	p.Helper()
	h := p.open("vm/"+vm+"/ctl", os.O_WRONLY)
	defer h.Close()
	if _, err := h.WriteAt(p.Context(), []byte(message+"\n"), 0); err != nil {
		p.Fatal(err)
	}
}

// some reads the beginning of an archive.
func (p *packer) some(h fs.Handle) []byte {
	p.Helper()
	b := make([]byte, 64<<10)
	n, err := h.ReadAt(p.Context(), b, 0)
	if err != nil || n == 0 {
		p.Fatalf("%d, %v", n, err)
	}
	return b[:n]
}

// rest reads an archive from off to its end.
func rest(ctx context.Context, h fs.Handle, off int) ([]byte, error) {
	var all bytes.Buffer
	b := make([]byte, 100_000)
	for {
		n, err := h.ReadAt(ctx, b, int64(off+all.Len()))
		all.Write(b[:n])
		if n == 0 || err != nil {
			return all.Bytes(), err
		}
	}
}

func (p *packer) leftovers(vm string) []string {
	left, _ := filepath.Glob(filepath.Join(p.state, "vm", vm, ".new-*"))
	return left
}

// TestPackReaders has an archive read in pieces, twice at once, and by too many.
func TestPackReaders(t *testing.T) {
	p := newPacker(t)
	a, b := p.open("vm/dev/pack", os.O_RDONLY), p.open("vm/dev/pack", os.O_RDONLY)
	first := p.some(a)
	if again := p.some(a); !bytes.Equal(first, again) {
		t.Error("what was read last is not what is read again")
	}
	if _, err := a.ReadAt(t.Context(), make([]byte, 10), 1<<20); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("read ahead: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // of whom each takes what there is, or nothing
		n, err := a.ReadAt(gone, make([]byte, 10), int64(len(first)))
		if n == 0 && err == nil {
			t.Fatal("an interrupted read was at the end")
		}
		first = append(first, make([]byte, n)...)
	}
	p.some(b)
	c, d, e := p.open("vm/dev/pack", os.O_RDONLY), p.open("vm/dev/pack", os.O_RDONLY), p.open("vm/dev/pack", os.O_RDONLY)
	p.some(c)
	p.some(d)
	if _, err := e.ReadAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("the fifth reader: %v", err)
	}
	if data, err := rest(t.Context(), a, len(first)); err != nil || len(data) < 7<<20 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for _, h := range []fs.Handle{a, b, c, d, e} {
		h.Close()
	}
}

// TestPackThatGoes has the VM start, and go, while its archive is read.
func TestPackThatGoes(t *testing.T) {
	p := newPacker(t)
	h := p.open("vm/dev/pack", os.O_RDONLY)
	n := len(p.some(h))
	p.ctl("dev", "start")
	if data, err := rest(t.Context(), h, n); !errors.Is(err, fs.ErrBusy) || !strings.Contains(err.Error(), "started or changed while it was packed") {
		t.Errorf("of a VM that was started: %d bytes, %v", len(data), err)
	}
	h.Close()
	h = p.open("vm/dev/pack", os.O_RDONLY)
	n = len(p.some(h))
	if left := p.leftovers("dev"); len(left) != 1 {
		t.Errorf("copies of a VM that runs: %v", left)
	}
	p.ctl("dev", "stop")
	if err := p.rmdir("dev"); err != nil {
		t.Fatal(err)
	}
	if _, err := rest(t.Context(), h, n); !errors.Is(err, fs.ErrInterrupted) {
		t.Errorf("of a VM that went: %v", err)
	}
	h.Close()
}

// TestPackReaderGoes has nothing be left of an archive that nobody reads on.
func TestPackReaderGoes(t *testing.T) {
	p := newPacker(t)
	p.ctl("dev", "start")
	h := p.open("vm/dev/pack", os.O_RDONLY)
	p.some(h)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if left := p.leftovers("dev"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestUnpackWrites has an archive written in pieces, by a writer who gives up.
func TestUnpackWrites(t *testing.T) {
	p := newPacker(t)
	h := p.open("vm/dev/pack", os.O_RDONLY)
	data, err := rest(t.Context(), h, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	p.mkdir("new")
	to := p.open("vm/new/unpack", os.O_WRONLY)
	if _, err := p.open("vm/new/unpack", os.O_WRONLY).WriteAt(t.Context(), data[:1000], 0); err != nil {
		t.Error(err)
	}
	if _, err := to.WriteAt(t.Context(), data[:1000], 0); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("two archives at once: %v", err)
	}
	to.Close()
	if err := p.rmdir("new"); err != nil { // whose other archive is under way
		t.Fatal(err)
	}
	p.mkdir("new")
	to = p.open("vm/new/unpack", os.O_WRONLY)
	gone, cancel := context.WithCancel(t.Context())
	for off := 0; off < len(data); {
		piece := data[off:min(off+100_000, len(data))]
		if off == 300_000 {
			cancel()
			to.WriteAt(gone, piece, int64(off)) // which may have been taken, or not
		}
		if _, err := to.WriteAt(t.Context(), data[:10], int64(off+1)); !errors.Is(err, fs.ErrInvalid) {
			t.Fatalf("a write ahead: %v", err)
		}
		n, err := to.WriteAt(t.Context(), piece, int64(off))
		if err != nil {
			t.Fatal(err)
		}
		off += n
	}
	if state := p.read("vm/new/status"); !strings.HasPrefix(state, "created\n") {
		t.Errorf("before it is closed it is %q", state)
	}
	if err := errors.Join(to.Flush(t.Context()), to.Close()); err != nil {
		t.Error(err)
	}
	if state := p.read("vm/new/status"); !strings.HasPrefix(state, "stopped\n") {
		t.Errorf("it is %q", state)
	}
	cancel()
}

func (p *packer) read(name string) string {
	p.Helper()
	h := p.open(name, os.O_RDONLY)
	defer h.Close()
	text, err := rest(p.Context(), h, 0)
	if err != nil && err != io.EOF {
		p.Fatal(err)
	}
	return string(text)
}

// TestUnpackMore has bytes behind an archive make nothing.
func TestUnpackMore(t *testing.T) {
	p := newPacker(t)
	h := p.open("vm/dev/pack", os.O_RDONLY)
	data, err := rest(t.Context(), h, 0)
	h.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.mkdir("new")
	to := p.open("vm/new/unpack", os.O_WRONLY)
	if _, err := to.WriteAt(t.Context(), data, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := to.WriteAt(t.Context(), []byte("more"), int64(len(data))); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("bytes behind the end: %v", err)
	}
	to.Flush(t.Context())
	to.Close()
	if state := p.read("vm/new/status"); !strings.HasPrefix(state, "created\n") {
		t.Errorf("it is %q", state)
	}
	if left := p.leftovers("new"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// sealed returns a whole archive of members; those without a kind are files, whose
// text is in Linkname.
func (p *packer) sealed(manifest string, members ...tar.Header) []byte {
	p.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, data string) {
		h.Mode, h.Format = 0o755, tar.FormatPAX
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		}
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(w, data)
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	add(tar.Header{Name: "manifest.json"}, manifest)
	for _, h := range members {
		data := ""
		if h.Typeflag == 0 {
			data, h.Linkname = h.Linkname, ""
		}
		add(h, data)
	}
	add(tar.Header{Name: "digest"}, fmt.Sprintf("%x\n", sha256.Sum256(b.Bytes())))
	b.Write(make([]byte, 1024))
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20))
	if err != nil {
		p.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(b.Bytes(), nil)
}

// TestUnpackSenseless has archives that are whole and cannot be unpacked: the write
// that brings the end says why.
func TestUnpackSenseless(t *testing.T) {
	p := newPacker(t)
	good := `{"format":1,"name":"x","driver":"fake","image":{"kind":"host"}}`
	env, work, layer := folderHeader("env"), folderHeader("work"), folderHeader("layer")
	for _, c := range []struct {
		err, manifest string
		members       []tar.Header
	}{
		{`name "work/../f"`, good, []tar.Header{env, work, {Name: "work/../f"}, layer}},
		{`unknown member "/etc/f"`, good, []tar.Header{env, work, {Name: "/etc/f"}, layer}},
		{`name "work//f"`, good, []tar.Header{env, work, {Name: "work//f"}, layer}},
		{`unknown member "manifest.json"`, good, []tar.Header{env, work, {Name: "manifest.json"}, layer}},
		{`unknown member "other/"`, good, []tar.Header{env, work, folderHeader("other"), layer}},
		{"in no folder", good, []tar.Header{env, work, {Typeflag: tar.TypeSymlink, Name: "work/l", Linkname: "/etc"}, {Name: "work/l/f"}, layer}},
		{"hard link", good, []tar.Header{env, work, {Typeflag: tar.TypeLink, Name: "work/l", Linkname: "/etc/passwd"}, layer}},
		{"is a device", good, []tar.Header{env, work, layer, {Typeflag: tar.TypeChar, Name: "layer/null", Devmajor: 1, Devminor: 3}}},
		{"comes twice", good, []tar.Header{env, work, {Name: "work/f"}, {Name: "work/f"}, layer}},
		{"does not parse", `{"format":"1"}`, []tar.Header{env, work, layer}},
		{"does not parse", `{"format":1,"taken":"soon"}`, []tar.Header{env, work, layer}},
		{"is not what env has", good, []tar.Header{env, {Typeflag: tar.TypeSymlink, Name: "env/K", Linkname: "/etc/passwd"}, work, layer}},
		{"no JSON object", good, []tar.Header{env, work, layer, {Name: "ledger/mcp_calls.jsonl", Linkname: "rubbish\n"}}},
		{"", good, []tar.Header{env, work, layer}}, // or else this test tells nothing
	} {
		p.mkdir("new")
		to := p.open("vm/new/unpack", os.O_WRONLY)
		_, err := to.WriteAt(t.Context(), p.sealed(c.manifest, c.members...), 0)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v, want %q", err, c.err)
		}
		if cerr := to.Close(); (cerr == nil) != (c.err == "") || cerr != nil && cerr.Error() != err.Error() {
			t.Errorf("closed: %v, want %v", cerr, err)
		}
		if err := p.rmdir("new"); err != nil {
			t.Fatal(err)
		}
	}
}

func folderHeader(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name + "/"}
}
