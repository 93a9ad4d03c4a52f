package ninep

import (
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"9fans.net/go/plan9"
	"9fans.net/go/plan9/client"

	"hutch/fs"
	"hutch/fs/fstest"
	"hutch/fs/need"
)

// serveOn serves a tree on addr until the test ends.
func serveOn(t testing.TB, addr string) (*fstest.Tree, net.Addr) {
	t.Helper()
	l, err := Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.New(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&Server{Root: tree.Root()}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if open, _ := tree.Handles(); open != 0 {
			t.Errorf("%d handles open at the end", open)
		}
	})
	return tree, l.Addr()
}

// TestDiod reads the tree with the tools of diod, the other implementation of
// 9P2000.L.
func TestDiod(t *testing.T) {
	diodls, diodcat := need.Tool(t, "diodls"), need.Tool(t, "diodcat")
	tree, addr := serveOn(t, "tcp!127.0.0.1!0")
	tree.SetBig(1 << 20)
	tree.Push("one\n")
	tree.End()
	run := func(prog string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var errs bytes.Buffer
		cmd := exec.CommandContext(ctx, prog, append([]string{"-s", addr.String(), "-a", "/"}, args...)...)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return err.Error() + ": " + errs.String()
		}
		return string(out)
	}
	if got := strings.Fields(run(diodls, "/")); strings.Join(got, " ") != "big ctl deep events link many status store wait" {
		t.Errorf("diodls: %q", got)
	}
	if got := run(diodls, "-l", "/"); !strings.Contains(got, "status") || !strings.Contains(got, "1048576") {
		t.Errorf("diodls -l: %s", got)
	}
	if got := strings.Fields(run(diodls, "/many")); len(got) != 100 {
		t.Errorf("diodls /many: %q", got)
	}
	if got := run(diodcat, "status"); got != fstest.Status {
		t.Errorf("diodcat status: %q", got)
	}
	if got := run(diodcat, "deep/a/b/c/leaf", "events"); got != "leaf\none\n" {
		t.Errorf("diodcat two: %q", got)
	}
	if got := run(diodcat, "big"); len(got) != 1<<20 {
		t.Errorf("diodcat big: %d bytes", len(got))
	}
	if got := run(diodcat, "nothing"); !strings.Contains(got, "No such file") {
		t.Errorf("diodcat nothing: %q", got)
	}
}

// TestPlan9 uses the client of plan9port's Go world.
func TestPlan9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "9p")
	tree, _ := serveOn(t, "unix!"+path)
	fsys, err := client.Mount("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := fsys.Open("status", plan9.OREAD)
	ok(err)
	b, err := io.ReadAll(f)
	if err != nil || string(b) != fstest.Status {
		t.Errorf("status %q, %v", b, err)
	}
	ok(f.Close())
	if _, err := fsys.Open("nothing", plan9.OREAD); err == nil || err.Error() != "file does not exist" {
		t.Errorf("open of nothing: %v", err)
	}
	f, err = fsys.Open("ctl", plan9.OWRITE|plan9.OTRUNC)
	ok(err)
	if _, err := f.Write([]byte("bad\n")); err == nil || !strings.HasPrefix(err.Error(), "invalid argument: unknown control message") {
		t.Errorf("bad message: %v", err)
	}
	_, err = f.Write([]byte("start\n"))
	ok(err)
	ok(f.Close())

	f, err = fsys.Create("store/a", plan9.ORDWR, 0o640)
	ok(err)
	_, err = f.Write(bytes.Repeat([]byte("x"), 100_000))
	ok(err)
	ok(f.Close())
	d, err := fsys.Stat("store/a")
	ok(err)
	if d.Name != "a" || d.Length != 100_000 || d.Mode != 0o640 {
		t.Errorf("stat %v", d)
	}
	var w plan9.Dir
	w.Null()
	w.Name, w.Length, w.Mtime = "b", 3, 77
	ok(fsys.Wstat("store/a", &w))
	if got, _ := tree.Stored("b"); got != "xxx" {
		t.Errorf("stored %q", got)
	}
	f, err = fsys.Create("store/d", plan9.OREAD, plan9.DMDIR|0o755)
	ok(err)
	ok(f.Close())
	f, err = fsys.Open("many", plan9.OREAD)
	ok(err)
	dirs, err := f.Dirreadall()
	if err != nil || len(dirs) != 100 || dirs[42].Name != "f42" {
		t.Errorf("many: %d, %v", len(dirs), err)
	}
	ok(f.Close())
	ok(fsys.Remove("store/d"))
	ok(fsys.Remove("store/b"))
}

// TestStatCodec compares the form of a stat with another implementation's.
func TestStatCodec(t *testing.T) {
	s := &session{srv: &Server{}, dialect: classic}
	st := fs.Stat{Name: "näme", Mode: 0o640, Qid: 1<<40 + 7, Vers: 9, Size: 12345, UID: 1 << 30, GID: 1<<30 + 1,
		Atime: time.Unix(5, 0), Mtime: time.Unix(1<<33, 0)}
	b := s.putStat(nil, st)
	d, err := plan9.UnmarshalDir(b)
	if err != nil {
		t.Fatal(err)
	}
	want := plan9.Dir{
		Qid: plan9.Qid{Path: 1<<40 + 7, Vers: 9}, Mode: 0o640, Atime: 5, Mtime: 1<<32 - 1,
		Length: 12345, Name: "näme", Uid: "1073741824", Gid: "1073741825", Muid: "1073741824",
	}
	if *d != want {
		t.Errorf("got  %v\nwant %v", d, &want)
	}
	back, err := getStat(b)
	if err != nil || back != s.dirStat(st) {
		t.Errorf("back %+v, %v", back, err)
	}
	var null plan9.Dir
	null.Null()
	b, _ = null.Bytes()
	if d, err := getStat(b); err != nil || d != untouched {
		t.Errorf("null: %+v, %v", d, err)
	}
}
