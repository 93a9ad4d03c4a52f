package replica

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deepen makes folders in each other below dir, a file in each hundredth and
// in the last, and returns how many files that was.
func deepen(t *testing.T, dir string, depth int) (files int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	name := strings.Repeat("n", 20)
	for i := 1; i <= depth && err == nil; i++ {
		if err = unix.Mkdirat(fd, name, 0o755); err != nil {
			break
		}
		next := -1
		next, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		fd = next
		if err == nil && (i%100 == 0 || i == depth) {
			f := -1
			if f, err = unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600); err == nil {
				unix.Write(f, []byte("deep"))
				unix.Close(f)
				err = unix.Linkat(fd, "file", fd, "other", 0)
				files += 2
			}
		}
	}
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// descriptors returns how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Folders that lie deeper in each other than any path can say are copied, in
// one pass and in several, and removed, with no more than some descriptors.
func TestDeeperThanPaths(t *testing.T) {
	const depth = 3000
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.Mkdir(from, 0o755); err != nil {
		t.Fatal(err)
	}
	files := deepen(t, from, depth)
	before := descriptors(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = min(limit.Cur, uint64(before+300))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	r := New(from, to)
	if err := r.Ahead(context.Background()); err != nil {
		t.Fatal(err)
	}
	cost, err := r.Copy(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if cost.Folders != depth+1 || cost.Files != files {
		t.Errorf("%d folders and %d files were copied of %d and %d", cost.Folders, cost.Files, depth+1, files)
	}
	again := New(from, filepath.Join(dir, "again"))
	if err := r.Remember(); err != nil {
		t.Error(err)
	}
	again.Since(to)
	if cost, err := again.Copy(context.Background()); err != nil || cost.Files != files {
		t.Errorf("again: %+v, %v", cost, err)
	}
	for _, name := range []string{"from", "to", "again"} {
		if err := Remove(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if n := descriptors(t); n > before+2 {
		t.Errorf("%d descriptors are open, %d were", n, before)
	}
}

// TestRemoved has a folder removed when it is open and not read yet: that is
// one that was replaced, which is looked up again, and no error of the copy.
func TestRemoved(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	from, err := openTop(gone)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	to, err := openTop(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	p := &pass{ctx: context.Background()}
	if _, err := p.folder(from, to, nil); err != errMoved {
		t.Errorf("copy of a removed folder: %v, want %v", err, errMoved)
	}
}

// A stir is a context that does something when it is asked for the n-th time.
type stir struct {
	context.Context
	n  int
	do func()
}

func (s *stir) Err() error {
	if s.n--; s.n == 0 {
		s.do()
	}
	return nil
}

// TestMoved moves a folder while what lies deep in it is copied ahead: the way
// up from there leads elsewhere. What is copied then is as it is in the end.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	moves := filepath.Join(from, "a", "a", "a")
	deep := strings.Repeat("/a", openDepth+10)
	if err := os.MkdirAll(moves+deep, 0o700); err != nil {
		t.Fatal(err)
	}
	r := New(from, to)
	ctx := &stir{context.Background(), openDepth + 5, func() {
		if err := os.Rename(moves, filepath.Join(from, "b")); err != nil {
			t.Error(err)
		}
	}}
	if err := r.Ahead(ctx); err != nil {
		t.Fatalf("ahead: %v", err)
	}
	if ctx.n > 0 {
		t.Fatal("nothing was moved")
	}
	if _, err := r.Copy(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "b") + deep); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(to, "a", "a", "a")); err == nil {
		t.Error("a folder that was moved is where it was, too")
	}
}
