package disk

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deepen makes folders in each other below top, each with another one beside
// it, and a file of a MiB in the last.
func deepen(t *testing.T, top string, depth int) {
	t.Helper()
	fd, err := unix.Open(top, openFlags, 0)
	for i := 0; i < depth && err == nil; i++ {
		name := strconv.Itoa(i) // which comes before the other, or after it
		unix.Mkdirat(fd, "beside", 0o755)
		if err = unix.Mkdirat(fd, name, 0o755); err == nil {
			next := -1
			next, err = unix.Openat(fd, name, openFlags, 0)
			unix.Close(fd)
			fd = next
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	unix.Write(f, make([]byte, 1<<20))
	unix.Close(f)
	unix.Close(fd)
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list) - 1 // but for that of the list
}

// Folders that lie deep in each other are measured like others, with few
// descriptors.
func TestDeep(t *testing.T) {
	const depth, few = 5000, 4
	top := t.TempDir()
	deepen(t, top, depth)
	all, _ := Used(t.Context(), math.MaxInt64, top)
	if all < 1<<20+2*depth*least {
		t.Errorf("%d bytes in %d folders", all, 2*depth)
	}
	before := descriptors(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(before + few), Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	n, err := Used(t.Context(), math.MaxInt64, top)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	if err != nil || n != all {
		t.Errorf("%d bytes with %d descriptors more, %v; %d with many", n, few, err, all)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are left open", after-before)
	}
}

// Whatever a guest moves while it is measured, nothing is counted that is
// elsewhere, and the rest is.
func TestMoved(t *testing.T) {
	const big = 10 << 20
	for _, test := range []struct{ name, from, to string }{
		{"renamed", "top/a/b", "top/a/other"},
		{"into another", "top/a/b", "top/d/b"},
		{"further down", "top/a", "top/d/a"},
		{"out", "top/a/b", "out/b"},
		{"out with those above", "top/a", "out/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"top/a/b/c", "top/a/beside", "top/d", "out"} {
				os.MkdirAll(filepath.Join(dir, name), 0o755)
			}
			for name, size := range map[string]int{"top/file": 1 << 20, "out/file": big} {
				if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			os.Symlink("../out", filepath.Join(dir, "top/link"))
			w, err := newWalk(math.MaxInt64, filepath.Join(dir, "top"))
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			for w.more() && w.way[len(w.way)-1].name != "c" {
				w.step()
			}
			if err := os.Rename(filepath.Join(dir, test.from), filepath.Join(dir, test.to)); err != nil {
				t.Fatal(err)
			}
			for w.more() {
				w.step()
			}
			if w.sum < 1<<20+5*least || w.sum >= big {
				t.Errorf("%d bytes", w.sum)
			}
		})
	}
}

// A guest cannot have the walk keep many names: folders that lie deep in each
// other with others beside all of them are too much.
func TestNamesAreBounded(t *testing.T) {
	w, err := newWalk(1<<40, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	deepest := 0
	for ; w.more(); w.step() {
		if len(w.way) <= deepest || deepest == 50 {
			continue
		}
		if deepest = len(w.way); deepest == 50 && w.names < 6*250*50 {
			t.Errorf("%d bytes of names are counted", w.names)
		}
		for i := range 7 {
			if err := unix.Mkdirat(w.in, strings.Repeat(strconv.Itoa(i), 250), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.names > 0 || w.sum > w.enough {
		t.Errorf("%d bytes of names are left, %d bytes", w.names, w.sum)
	}
	is, _ := stat(w.top, ".")
	if !w.enter(w.top, ".", is) {
		t.Fatal("the top is gone")
	}
	w.way, w.names = append(w.way, level{name: ".", is: is}), maxNames
	for w.more() && len(w.way) < 3 {
		w.step()
	}
	if w.sum <= w.enough {
		t.Error("more names are kept than there may be")
	}
}

// A guest that moves each folder when the walk is to leave it cannot have it go
// all the way from the top each time.
func TestBackIsBounded(t *testing.T) {
	const depth = 500
	dir := t.TempDir()
	in := filepath.Join(dir, "top", strings.Repeat("a/", depth))
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := newWalk(1<<40, filepath.Join(dir, "top"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for len(w.way) <= depth {
		w.step()
	}
	for at := len(w.way); w.more(); w.step() {
		if len(w.way) <= at && at > 1 {
			at = len(w.way) - 1
			if err := os.Rename(in, filepath.Join(dir, strconv.Itoa(at))); err != nil {
				t.Fatal(err)
			}
			in = filepath.Dir(in)
		}
	}
	if w.sum <= w.enough {
		t.Error("it went back each time")
	}
}
