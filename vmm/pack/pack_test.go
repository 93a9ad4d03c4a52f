package pack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/vmm/pack"
)

var plenty = pack.Limits{Files: 1000, Room: room(1 << 30)}

// room returns a Room that does not change.
func room(bytes int64) func() int64 { return func() int64 { return bytes } }

// archive returns an archive of folders.
func archive(t testing.TB, folders ...pack.Folder) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pack.NewWriter(&b, pack.Manifest{Name: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if err := w.Folder(t.Context(), f, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// extract unpacks an archive, to its end, into dir.
func extract(ctx context.Context, data []byte, dir string, limits pack.Limits) error {
	return extractFrom(ctx, bytes.NewReader(data), dir, limits)
}

// whole returns a reader of an archive whose sender gives no more after it, nor an
// end, before there was an answer.
func whole(data []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errors.New("read behind the end")))
}

func extractFrom(ctx context.Context, from io.Reader, dir string, limits pack.Limits) error {
	r, _, err := pack.NewReader(from)
	if err != nil {
		return err
	}
	defer r.Close()
	x := pack.Extraction{Dir: dir, Limits: limits, Ledger: func(_ string, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}}
	if err := x.Extract(ctx, r); err != nil {
		return err
	}
	return r.Drain()
}

// listing returns what is in a folder, a line each.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	names := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%s %o %d %d", name, st.Mode, st.Uid, unix.TimespecToNsec(st.Mtim))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(data))
			if st.Nlink > 1 && names[uint64(st.Ino)] == "" {
				names[uint64(st.Ino)] = name
			}
			fmt.Fprintf(&b, " %s", names[uint64(st.Ino)])
		case unix.S_IFLNK:
			target, _ := os.Readlink(path)
			fmt.Fprintf(&b, " %s", target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	work := filepath.Join(from, "work")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(work, "a", "b"), 0o755))
	must(os.WriteFile(filepath.Join(work, "a", "f"), []byte("text"), 0o640))
	must(os.WriteFile(filepath.Join(work, "a", "b", "empty"), nil, 0o600))
	must(os.Link(filepath.Join(work, "a", "f"), filepath.Join(work, "z")))
	must(os.Symlink("../../../etc/passwd", filepath.Join(work, "link")))
	must(unix.Mkfifo(filepath.Join(work, "pipe"), 0o600))
	must(os.WriteFile(filepath.Join(work, "a.b"), []byte("between a and its files"), 0o600))
	must(os.WriteFile(filepath.Join(work, "odd\nname \xff"), []byte("x"), 0o600))
	must(os.WriteFile(filepath.Join(work, "big"), bytes.Repeat([]byte("0123456789abcdef"), 40_000), 0o600))
	must(os.Chmod(filepath.Join(work, "a", "b"), 0o555))
	t.Cleanup(func() {
		os.Chmod(filepath.Join(work, "a", "b"), 0o755)
		os.Chmod(filepath.Join(to, "work", "a", "b"), 0o755)
	})
	old := time.Unix(1_000_000_000, 123456789)
	must(os.Chtimes(filepath.Join(work, "a", "f"), old, old))
	must(os.Chtimes(work, old, old))
	must(extract(t.Context(), archive(t, pack.Folder{Name: "work", Dir: work}), to, plenty))
	if got, want := listing(t, filepath.Join(to, "work")), listing(t, work); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestHoles packs a file that is far longer than what it has.
func TestHoles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1 << 40
	for _, off := range []int64{0, 1 << 20, 1 << 39, size - 5} {
		if _, err := f.WriteAt([]byte("here"), off); err != nil {
			t.Skip(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		t.Skip(err)
	}
	data := archive(t, pack.Folder{Name: "layer", Dir: from})
	if len(data) > 1<<20 {
		t.Fatalf("archive has %d bytes", len(data))
	}
	if err := extract(t.Context(), data, to, pack.Limits{Files: 10, Room: room(16 << 20)}); err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(filepath.Join(to, "layer", "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if fi, _ := g.Stat(); fi.Size() != size {
		t.Errorf("has %d bytes", fi.Size())
	}
	p := make([]byte, 5)
	for _, off := range []int64{0, 1 << 20, 1 << 39, size - 5} {
		if _, err := g.ReadAt(p, off); err != nil || string(p[:4]) != "here" || p[4] != 0 {
			t.Errorf("at %d: %q, %v", off, p, err)
		}
	}
}

// TestChanged cuts an archive at each byte, and changes each.
func TestChanged(t *testing.T) {
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "f"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := archive(t, pack.Folder{Name: "work", Dir: from})
	for n := range data {
		if err := extract(t.Context(), data[:n], t.TempDir(), plenty); !errors.Is(err, fs.ErrInvalid) {
			t.Fatalf("cut after %d bytes of %d: %v", n, len(data), err)
		}
		changed := slices.Clone(data)
		changed[n] ^= 0x55
		// The same can be compressed in more ways than one.
		if err := extract(t.Context(), changed, t.TempDir(), plenty); err == nil && !bytes.Equal(unzip(changed), unzip(data)) {
			t.Fatalf("with byte %d changed of %d there is no error", n, len(data))
		}
	}
	for _, more := range []string{"x", string(data), "\x00"} {
		if err := extract(t.Context(), append(slices.Clone(data), more...), t.TempDir(), plenty); err == nil {
			t.Errorf("with %.20q behind it there is no error", more)
		}
	}
}

func unzip(data []byte) []byte {
	z, _ := zstd.NewReader(bytes.NewReader(data))
	defer z.Close()
	plain, _ := io.ReadAll(z)
	return plain
}

// A member is one of a tar archive that a test makes.
type member struct {
	tar.Header
	data string
}

// seal makes an archive of what a tar archive has, with the right digest.
func seal(raw []byte) []byte {
	var b bytes.Buffer
	b.Write(raw)
	sum := sha256.Sum256(raw)
	w := tar.NewWriter(&b)
	text := hex.EncodeToString(sum[:]) + "\n"
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "digest", Size: int64(len(text))})
	io.WriteString(w, text)
	w.Close()
	return zipper.EncodeAll(b.Bytes(), nil)
}

var zipper, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))

func raw(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := m.Header
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		h.Size = int64(len(m.data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, m.data)
	}
	w.Flush()
	return b.Bytes()
}

func file(name, data string) member { return member{tar.Header{Name: name, Mode: 0o600}, data} }
func dir(name string) member {
	return member{tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, ""}
}
func kind(k byte, name, link string) member {
	return member{tar.Header{Typeflag: k, Name: name, Linkname: link, Mode: 0o644}, ""}
}
func record(name, key, value, data string) member {
	return member{tar.Header{Name: name, Mode: 0o600, PAXRecords: map[string]string{key: value}}, data}
}

var first = file("manifest.json", `{"format":1,"name":"x"}`)

// TestHostile has archives with the right digest, and no right to be unpacked.
func TestHostile(t *testing.T) {
	device := kind(tar.TypeChar, "layer/null", "")
	device.Devmajor, device.Devminor = 1, 3
	deep := []member{first, dir("work")}
	for i := range 300 {
		deep = append(deep, dir("work"+strings.Repeat("/d", i+1)))
	}
	for name, c := range map[string]struct {
		members []member
		err     string
	}{
		"no manifest":        {[]member{dir("work")}, "does not begin with"},
		"another format":     {[]member{file("manifest.json", `{"format":2}`)}, "has format 2"},
		"no JSON":            {[]member{file("manifest.json", `{`)}, "does not parse"},
		"format of text":     {[]member{file("manifest.json", `{"format":"1"}`), dir("work")}, "does not parse"},
		"no time":            {[]member{file("manifest.json", `{"format":1,"taken":"soon"}`), dir("work")}, "does not parse"},
		"two manifests":      {[]member{first, first}, "unknown member"},
		"unknown":            {[]member{first, dir("machine")}, "unknown member"},
		"state":              {[]member{first, file("state", "{}")}, "unknown member"},
		"dots":               {[]member{first, dir("work"), file("work/../f", "")}, "name"},
		"dots at the end":    {[]member{first, dir("work"), kind(tar.TypeDir, "work/../", "")}, "name"},
		"absolute":           {[]member{first, file("/work/f", "")}, "unknown member"},
		"twice a slash":      {[]member{first, dir("work"), file("work//f", "")}, "name"},
		"no folder":          {[]member{first, file("work", "")}, "is no folder"},
		"no folder before":   {[]member{first, file("work/f", "")}, "in no folder"},
		"twice":              {[]member{first, dir("work"), file("work/f", "1"), file("work/f", "2")}, "comes twice"},
		"part twice":         {[]member{first, dir("work"), dir("work")}, "comes twice"},
		"order":              {[]member{first, dir("work"), file("work/g", ""), file("work/f", "")}, "stands behind"},
		"order of parts":     {[]member{first, dir("layer"), dir("work")}, "stands behind"},
		"through a link":     {[]member{first, dir("work"), kind(tar.TypeSymlink, "work/l", "/tmp"), file("work/l/f", "")}, "in no folder"},
		"link to a folder":   {[]member{first, dir("work"), dir("work/d"), kind(tar.TypeLink, "work/l", "work/d")}, "is a directory"},
		"link elsewhere":     {[]member{first, dir("work"), kind(tar.TypeLink, "work/l", "../../etc/passwd")}, "hard link"},
		"link absolute":      {[]member{first, dir("work"), kind(tar.TypeLink, "work/l", "/etc/passwd")}, "hard link"},
		"link to a part":     {[]member{first, dir("env"), file("env/K", ""), dir("work"), kind(tar.TypeLink, "work/l", "env/K")}, "hard link"},
		"link by a link":     {[]member{first, dir("work"), kind(tar.TypeSymlink, "work/a", "/etc"), kind(tar.TypeLink, "work/b", "work/a/passwd")}, "hard link"},
		"device":             {[]member{first, dir("layer"), device}, "is a device"},
		"whiteout in work":   {[]member{first, dir("work"), kind(tar.TypeChar, "work/f", "")}, "is a device"},
		"block device":       {[]member{first, dir("layer"), kind(tar.TypeBlock, "layer/f", "")}, "is of the kind"},
		"folder in env":      {[]member{first, dir("env"), dir("env/d")}, "is not what env has"},
		"link in env":        {[]member{first, dir("env"), kind(tar.TypeSymlink, "env/K", "/etc/shadow")}, "is not what env has"},
		"link in pins":       {[]member{first, dir("pins"), kind(tar.TypeSymlink, "pins/one", "/etc/shadow")}, "is not what pins has"},
		"folder in pins":     {[]member{first, dir("pins"), dir("pins/one")}, "is not what pins has"},
		"pins before layer":  {[]member{first, dir("pins"), dir("layer")}, "stands behind"},
		"link in log":        {[]member{first, dir("log"), kind(tar.TypeSymlink, "log/agg", "/etc/shadow")}, "is not what log has"},
		"link in saved":      {[]member{first, dir("saved"), kind(tar.TypeSymlink, "saved/config", "/etc/shadow")}, "is not what saved has"},
		"file in snap":       {[]member{first, dir("snap"), file("snap/f", "")}, "is not what snap has"},
		"seen in snap":       {[]member{first, dir("snap"), dir("snap/a"), file("snap/a/work.seen", "")}, "is not what snap has"},
		"record of tar":      {[]member{first, dir("work"), record("work/f", "VENDOR.x", "1", "")}, "has a record"},
		"trusted attribute":  {[]member{first, dir("work"), record("work/f", "SCHILY.xattr.trusted.overlay.opaque", "y", "")}, "has an attribute"},
		"metacopy":           {[]member{first, dir("layer"), record("layer/f", "SCHILY.xattr.trusted.overlay.metacopy", "", "")}, "has an attribute"},
		"acl":                {[]member{first, dir("layer"), record("layer/f", "SCHILY.xattr.system.posix_acl_access", "x", "")}, "has an attribute"},
		"holes that overlap": {[]member{first, dir("work"), record("work/f", "HUTCH.sparse", "10,0:2,1:2", "abcd")}, "piece"},
		"holes behind":       {[]member{first, dir("work"), record("work/f", "HUTCH.sparse", "10,9:4", "abcd")}, "piece"},
		"holes and data":     {[]member{first, dir("work"), record("work/f", "HUTCH.sparse", "10,0:2", "abcd")}, "has 4 bytes of data"},
		"holes negative":     {[]member{first, dir("work"), record("work/f", "HUTCH.sparse", "-1", "")}, "length"},
		"too deep":           {deep, "folders deep"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			at := filepath.Join(top, "at")
			os.Mkdir(at, 0o700)
			err := extractFrom(t.Context(), whole(seal(raw(t, c.members...))), at, plenty)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if entries, _ := os.ReadDir(top); len(entries) != 1 {
				t.Errorf("%v was made", entries)
			}
		})
	}
}

// TestBehindTheEnd has members that stand behind the digest.
func TestBehindTheEnd(t *testing.T) {
	whole := raw(t, first, dir("work"))
	sum := sha256.Sum256(whole)
	whole = append(whole, raw(t, file("digest", hex.EncodeToString(sum[:])+"\n"), file("work/f", "late"))...)
	var b bytes.Buffer
	z, _ := zstd.NewWriter(&b, zstd.WithWindowSize(1<<20))
	z.Write(append(whole, make([]byte, 1024)...))
	z.Close()
	if err := extract(t.Context(), b.Bytes(), t.TempDir(), plenty); err == nil || !strings.Contains(err.Error(), "stands behind its end") {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	members := []member{first, dir("work")}
	for i := range 100 {
		members = append(members, file(fmt.Sprintf("work/f%03d", i), strings.Repeat("\x00", 100<<10)))
	}
	bomb := seal(raw(t, members...)) // ten megabytes in a few hundred bytes
	for name, l := range map[string]pack.Limits{
		"files": {Files: 50, Room: room(1 << 30)},
		"bytes": {Files: 1000, Room: room(1 << 20)},
		"disk":  {Files: 1000, Room: room(1 << 30), Disk: 1 << 20},
	} {
		if err := extract(t.Context(), bomb, t.TempDir(), l); !errors.Is(err, fs.ErrNoSpace) && !strings.Contains(err.Error(), "more than 50 files") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoRoom has the file system fill while a file is written.
func TestNoRoom(t *testing.T) {
	left := int64(16 << 20)
	l := pack.Limits{Files: 10, Room: func() int64 { left -= 1 << 20; return left }}
	data := seal(raw(t, first, dir("work"), file("work/f", strings.Repeat("text", 1<<20)), file("work/g", strings.Repeat("text", 1<<20))))
	if err := extract(t.Context(), data, t.TempDir(), l); !errors.Is(err, fs.ErrNoSpace) {
		t.Error(err)
	}
}

// TestBlame has a byte changed that makes a member what it may not be: what is
// wrong with the archive is that.
func TestBlame(t *testing.T) {
	for _, c := range []struct{ was, is, err string }{
		{`{"n":1}`, `{"n":x}`, "it was changed since it was made: it does not match its digest"},
		{`"format":1`, `"format":x`, "it was changed since it was made: it does not match its digest"},
		{"", "", "rubbish in a table"},
	} {
		plain := unzip(seal(raw(t, first, file("ledger/calls.jsonl", `{"n":1}`), dir("snap"), dir("snap/a"))))
		if c.was != "" {
			plain = bytes.Replace(plain, []byte(c.was), []byte(c.is), 1)
		}
		r, _, err := pack.NewReader(whole(zipper.EncodeAll(plain, nil)))
		if err == nil {
			x := pack.Extraction{Dir: t.TempDir(), Limits: plenty, Ledger: func(string, io.Reader) error {
				return fmt.Errorf("%w: rubbish in a table", fs.ErrInvalid)
			}}
			err = x.Extract(t.Context(), r)
			r.Close()
		}
		if err == nil || !strings.HasSuffix(err.Error(), c.err) {
			t.Errorf("%q for %q: %v", c.is, c.was, err)
		}
	}
}

// TestSetuid sees that setuid bits of a workspace mean nothing.
func TestSetuid(t *testing.T) {
	m := file("work/f", "")
	m.Mode = 0o6755
	to := t.TempDir()
	if err := extract(t.Context(), seal(raw(t, first, dir("work"), m)), to, plenty); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(to, "work", "f")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

// TestShrinking packs a file that is cut off meanwhile: when more of the archive is
// out than stands before the file, which is more than a Writer keeps back and cannot be
// made smaller.
func TestShrinking(t *testing.T) {
	from := t.TempDir()
	name := filepath.Join(from, "f")
	data := make([]byte, 64<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out := 0
	w, err := pack.NewWriter(writerFunc(func(p []byte) (int, error) {
		if out += len(p); out < 1<<20 {
			return len(p), nil
		}
		return len(p), os.Truncate(name, 5)
	}), pack.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abandon()
	if err := w.Folder(t.Context(), pack.Folder{Name: "work", Dir: from}, func() error { return nil }); !errors.Is(err, fs.ErrBusy) {
		t.Error(err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func FuzzExtract(f *testing.F) {
	f.Add(raw(f, first, dir("env"), file("env/K", "v"), dir("work"), file("work/f", "text"), kind(tar.TypeSymlink, "work/l", "/etc"), kind(tar.TypeLink, "work/z", "work/f")))
	f.Add(raw(f, first, dir("layer"), kind(tar.TypeChar, "layer/gone", ""), record("layer/s", "HUTCH.sparse", "100,0:2,50:2", "abcd")))
	f.Add(raw(f, first, file("ledger/mcp_calls.jsonl", "{}\n"), dir("snap"), dir("snap/a"), file("snap/a/record.json", "{}"), dir("snap/a/work"), file("snap/a/work/f", "x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		at := filepath.Join(top, "at")
		os.Mkdir(at, 0o700)
		extract(t.Context(), seal(data), at, pack.Limits{Files: 100, Room: room(1 << 20)})
		if entries, _ := os.ReadDir(top); len(entries) != 1 {
			t.Fatalf("%v was made", entries)
		}
		filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
			if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSetuid != 0 && !strings.Contains(path, "/layer/") {
				t.Fatalf("%s has mode %v", path, fi.Mode())
			}
			return nil
		})
		// Bytes as they come, too.
		extract(t.Context(), data, t.TempDir(), pack.Limits{Files: 100, Room: room(1 << 20)})
	})
}
