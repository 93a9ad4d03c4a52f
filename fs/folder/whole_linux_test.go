package folder

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/fs/need"
)

// On a full disk a write fails, and the file is what it was.
func TestWholeOnFullDisk(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		need.Missing(t, "no tmpfs: "+err.Error())
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := context.Background()
	write := func(name, text string, flags int) error {
		t.Helper()
		n, err := f.Root().Walk(ctx, name)
		var h fs.Handle
		if err != nil {
			_, h, err = f.Root().Create(ctx, name, flags|os.O_WRONLY, 0o600)
		} else {
			h, err = n.Open(ctx, flags|os.O_WRONLY)
		}
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = h.WriteAt(ctx, []byte(text), 0)
		return err
	}
	wants := func(name, want string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	if err := write("K", "old\n", os.O_TRUNC); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, "K"), 0o640)
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = ballast.Write(make([]byte, 4096))
	}
	ballast.Close()
	for _, flags := range []int{0, os.O_TRUNC, os.O_APPEND} {
		if err := write("K", "new\n", flags); fs.Errno(err) != syscall.ENOSPC {
			t.Errorf("write on a full disk: %v", err)
		}
		wants("K", "old\n")
	}
	if err := write("NEW", "v\n", os.O_TRUNC); fs.Errno(err) != syscall.ENOSPC {
		t.Errorf("a new file on a full disk: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "NEW")); err == nil {
		t.Error("a file is left that nothing was written to")
	}
	os.Truncate(filepath.Join(dir, "ballast"), 512<<10)
	n, err := f.Root().Walk(ctx, "K")
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Open(ctx, os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	h.WriteAt(ctx, []byte("OLD\n"), 0)
	if _, err := h.WriteAt(ctx, make([]byte, 768<<10), 4); fs.Errno(err) != syscall.ENOSPC {
		t.Errorf("more than there is room for: %v", err)
	}
	wants("K", "OLD\n")
	if _, err := h.WriteAt(ctx, []byte("more\n"), 4); err != nil || h.Close() != nil {
		t.Errorf("what there is room for: %v", err)
	}
	wants("K", "OLD\nmore\n")
	os.Remove(filepath.Join(dir, "ballast"))
	if err := write("K", "newer\n", os.O_TRUNC); err != nil {
		t.Fatal(err)
	}
	wants("K", "newer\n")
	if fi, err := os.Stat(filepath.Join(dir, "K")); err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v, %v", fi.Mode(), err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

// As it is opened, cut, written, renamed and removed, a file has the text that
// it would have in any folder, but for a cut that nobody has written after.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := context.Background()
	stored := func(name, want string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	n, h, err := f.Root().Create(ctx, "K", os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	put := func(h fs.Handle, text string, off int64) {
		t.Helper()
		if k, err := h.WriteAt(ctx, []byte(text), off); k != len(text) || err != nil {
			t.Fatal(k, err)
		}
	}
	put(h, "hello", 0)
	put(h, " world", 5)
	stored("K", "hello world")
	for _, size := range []uint64{maxWhole + 1, 1 << 63} {
		if err := n.Set(ctx, fs.Change{Size: &size}); !errors.Is(err, fs.ErrNoSpace) {
			t.Errorf("made %d bytes long: %v", size, err)
		}
	}
	size := uint64(0)
	if err := n.Set(ctx, fs.Change{Size: &size}); err != nil {
		t.Fatal(err)
	}
	stored("K", "hello world")
	if st, err := n.Stat(ctx); err != nil || st.Size != 0 {
		t.Errorf("cut it has %d bytes, %v", st.Size, err)
	}
	other, err := n.Open(ctx, os.O_RDWR|os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	put(other, "one", 0)
	put(h, "O", 0)
	put(other, " two", 0)
	stored("K", "One two")
	if err := f.Root().Rename(ctx, "K", f.Root(), "L"); err != nil {
		t.Fatal(err)
	}
	put(h, "1", 0)
	stored("L", "1ne two")
	n.Set(ctx, fs.Change{Size: &size}) // by its old name: there is none
	if err := f.Root().Remove(ctx, "L", false); err != nil {
		t.Fatal(err)
	}
	put(h, "x", 0)
	h.Close()
	other.Close()
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
	_, h, err = f.Root().Create(ctx, "K", os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	put(h, "old", 0)
	h.Close()
	n, _ = f.Root().Walk(ctx, "K")
	if h, err = n.Open(ctx, os.O_WRONLY|os.O_TRUNC); err != nil {
		t.Fatal(err)
	}
	stored("K", "old")
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	stored("K", "")
}

// What does not fit is refused, whichever way it comes, and the file stays.
func TestWholeFits(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	most := 8
	f.Fits = func(name string, text []byte) error {
		if len(text) > most {
			return fmt.Errorf("%w: %s", fs.ErrArgs, name)
		}
		return nil
	}
	ctx := t.Context()
	n, h, err := f.Root().Create(ctx, "K", os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	long := uint64(9)
	for _, err := range []error{
		second(h.WriteAt(ctx, []byte("12345678"), 0)), second(h.WriteAt(ctx, []byte("abc"), 5)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{
		second(h.WriteAt(ctx, []byte("9"), 8)), second(h.WriteAt(ctx, []byte("123456789"), 0)), n.Set(ctx, fs.Change{Size: &long}),
	} {
		if !errors.Is(err, fs.ErrArgs) {
			t.Errorf("%v, want that it does not fit", err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "K")); err != nil || string(got) != "12345abc" {
		t.Errorf("the file is %q, %v", got, err)
	}
	if _, h, err := f.Root().Create(ctx, "L", os.O_WRONLY, 0o600); err != nil || !errors.Is(second(h.WriteAt(ctx, []byte("123456789"), 0)), fs.ErrArgs) {
		t.Error("what is too long was made:", err)
	}
	most = -1
	if _, _, err := f.Root().Create(ctx, "L", os.O_WRONLY, 0o600); !errors.Is(err, fs.ErrArgs) {
		t.Errorf("%v, want that there is no room for another", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "L")); err == nil {
		t.Error("there is another all the same")
	}
}

func second(_ int, err error) error { return err }

// A file that is written in pieces is stored as a whole once, and has each of
// them when it was written.
func TestWholeInPieces(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "profiles")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := context.Background()
	_, h, err := f.Root().Create(ctx, "K", os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "K"))
	if err != nil {
		t.Fatal(err)
	}
	stores := 0
	var want, piece []byte
	for i := range maxWhole / 4096 {
		piece = bytes.Repeat([]byte{byte(i)}, 4096)
		if _, err := h.WriteAt(ctx, piece, int64(len(want))); err != nil {
			t.Fatal(err)
		}
		want = append(want, piece...)
		now, err := os.Stat(filepath.Join(dir, "K"))
		if err != nil || now.Size() != int64(len(want)) {
			t.Fatalf("piece %d: %d bytes, %v", i, now.Size(), err)
		}
		if !os.SameFile(before, now) {
			stores++
		}
		before = now
	}
	if stores != 1 {
		t.Errorf("%d pieces were stored %d times", maxWhole/4096, stores)
	}
	got := make([]byte, maxWhole)
	if n, err := h.ReadAt(ctx, got, 0); err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("reads %d bytes of something else, %v", n, err)
	}
	if err := errors.Join(h.Flush(ctx), h.Close()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "K")); err != nil || !bytes.Equal(text, want) {
		t.Errorf("%d bytes of something else, %v", len(text), err)
	}
}

// What somebody put in the file's place meanwhile does not go on in it.
func TestWholeReplacedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := context.Background()
	path := filepath.Join(dir, "K")
	_, h, err := f.Root().Create(ctx, "K", os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.WriteAt(ctx, []byte("one"), 0)
	for i, other := range []string{"two", "longer"} {
		os.WriteFile(path+"~", []byte(other), 0o600)
		os.Rename(path+"~", path)
		h.WriteAt(ctx, []byte("!"), int64(3+i))
	}
	if text, err := os.ReadFile(path); string(text) != "one!!" {
		t.Errorf("%q, %v", text, err)
	}
}

const storeEnv = "HUTCH_FOLDER_TEST_STORE" // the folder to store in until killed

// TestStoring is a part of TestWholeKilled.
func TestStoring(t *testing.T) {
	dir := os.Getenv(storeEnv)
	if dir == "" {
		return
	}
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for i := byte('a'); ; i ^= 'a' ^ 'b' {
		_, h, err := f.Root().Create(ctx, "K", os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.WriteAt(ctx, bytes.Repeat([]byte{i}, maxWhole), 0); err != nil {
			t.Fatal(err)
		}
		h.Close()
		os.Stdout.Write([]byte{'.'})
	}
}

// A file is what it was or what it was to be, whenever hutchd is killed, and
// nothing else is left of that.
func TestWholeKilled(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, ".new-mine"), nil, 0o600)
	for round := range 10 {
		c := exec.Command(exe, "-test.run=^TestStoring$")
		c.Env = append(os.Environ(), storeEnv+"="+dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadFull(out, make([]byte, 1+round))
		c.Process.Kill()
		c.Wait()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "K"))
		if err != nil || len(text) != maxWhole || bytes.Count(text, text[:1]) != maxWhole {
			t.Fatalf("%d bytes, or two texts, %v", len(text), err)
		}
	}
	os.WriteFile(filepath.Join(dir, ".new-"+rand.Text()), nil, 0o600) // if none was killed that late
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	os.WriteFile(filepath.Join(dir, ".new-"+rand.Text()), nil, 0o600) // as one that is being stored
	list, err := f.Root().List(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != ".new-mine" || list[1].Name != "K" {
		t.Errorf("listed: %v, %v", list, err)
	}
	if there, _ := os.ReadDir(dir); len(there) != 3 {
		t.Errorf("left behind: %v", there)
	}
}

// What is written while the file is removed or renamed does not bring it back.
func TestWholeGoesMeanwhile(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, top := context.Background(), f.Root()
	for _, test := range []struct {
		name string
		do   func() error
	}{
		{"remove", func() error { return top.Remove(ctx, "K", false) }},
		{"rename", func() error { return top.Rename(ctx, "K", top, "other") }},
	} {
		for range 50 {
			_, h, err := top.Create(ctx, "K", os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			var writing sync.WaitGroup
			begun := make(chan struct{})
			writing.Go(func() {
				for i := range 5 {
					if _, err := h.WriteAt(ctx, []byte("text"), 0); err != nil {
						t.Error(err)
					}
					if i == 0 {
						close(begun)
					}
				}
			})
			<-begun
			if err := test.do(); err != nil {
				t.Fatal(err)
			}
			writing.Wait()
			h.Close()
			if _, err := os.Lstat(filepath.Join(dir, "K")); err == nil {
				t.Fatalf("%s: it is back", test.name)
			}
		}
	}
}

// A file that is open for writing stays where its folder goes.
func TestWholeMoves(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "profiles")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, top := context.Background(), f.Root()
	var handles []fs.Handle
	for _, name := range []string{"web.d", "web.dd"} {
		d, err := top.Mkdir(ctx, name, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		_, h, err := d.Create(ctx, "a.toml", os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		handles = append(handles, h)
	}
	if err := top.Rename(ctx, "web.d", top, "api.d"); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"api.d", "web.dd"} {
		if _, err := handles[i].WriteAt(ctx, []byte("text"), 0); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, name, "a.toml")); string(text) != "text" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// The name of what was stored is on the disk too.
func TestWholeSyncsFolder(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenWhole(dir, "profiles")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var synced []string
	defer func(was func(*os.File) error) { syncFile = was }(syncFile)
	syncFile = func(d *os.File) error {
		rel, _ := filepath.Rel(dir, d.Name())
		synced = append(synced, rel)
		return d.Sync()
	}
	ctx := context.Background()
	d, err := f.Root().Mkdir(ctx, "web.d", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range []fs.Node{f.Root(), d} {
		_, h, err := top.Create(ctx, "a.toml", os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.WriteAt(ctx, []byte("text"), 0); err != nil {
			t.Error(err)
		}
		h.Close()
	}
	if !slices.Equal(synced, []string{".", "web.d"}) {
		t.Errorf("synced %q", synced)
	}
}
