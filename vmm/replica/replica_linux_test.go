package replica_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
	"hutch/vmm/replica"
)

// picture returns a line on each file below dir: all that a replica keeps.
func picture(t testing.TB, dir string) []string {
	t.Helper()
	var lines []string
	first := make(map[uint64]string)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%q mode %o owner %d:%d mtime %d rdev %d", name, st.Mode, st.Uid, st.Gid, unix.TimespecToNsec(st.Mtim), st.Rdev)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			text, err := os.ReadFile(path)
			if errors.Is(err, os.ErrPermission) {
				text, err = []byte("locked"), nil
			}
			if err != nil {
				return err
			}
			if len(text) > 100 {
				text = text[len(text)-100:]
			}
			line += fmt.Sprintf(" size %d text %q", st.Size, text)
		case unix.S_IFLNK:
			target, _ := os.Readlink(path)
			line += " to " + target
		}
		if same := first[st.Ino]; same != "" {
			line += " is " + same
		} else if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			first[st.Ino] = name
		}
		lines = append(lines, line+labels(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func labels(t testing.TB, path string) string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		return ""
	}
	var all []string
	for _, name := range strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		value := make([]byte, 4096)
		if k, err := unix.Lgetxattr(path, name, value); err == nil {
			all = append(all, fmt.Sprintf(" %s=%q", name, value[:k]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

func same(t testing.TB, from, to string) {
	t.Helper()
	a, b := picture(t, from), picture(t, to)
	for _, line := range a {
		if !slices.Contains(b, line) {
			t.Errorf("replica lacks %s", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			t.Errorf("replica has   %s", line)
		}
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// furnish fills dir with one of everything that the user may make.
func furnish(t testing.TB, dir string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(dir, name) }
	old := time.Unix(1e9, 123456789)
	write(t, in("plain"), "text")
	write(t, in("deep/er/file"), "more")
	write(t, in("empty"), "")
	write(t, in("name with\nnewline"), "x")
	write(t, in("big"), strings.Repeat("0123456789abcdef", 1<<16))
	write(t, in("run"), "#!")
	must(t, os.Chmod(in("run"), 0o755|os.ModeSetuid), os.Chmod(in("deep"), 0o755|os.ModeSticky))
	must(t, os.Link(in("plain"), in("deep/hard")), os.Link(in("plain"), in("second")))
	must(t, os.Symlink("/etc/passwd", in("out")), os.Symlink("plain", in("in")), os.Symlink("/", in("deep/root")))
	must(t, unix.Mkfifo(in("pipe"), 0o640), unix.Mknod(in("gone"), unix.S_IFCHR, 0), unix.Mknod(in("socket"), unix.S_IFSOCK|0o600, 0))
	must(t, unix.Setxattr(in("run"), "user.note", []byte("a\x00b"), 0), unix.Setxattr(in("deep"), "user.overlay.opaque", []byte("y"), 0))
	must(t, unix.Setxattr(in("plain"), "user.long", []byte(strings.Repeat("v", 2000)), 0))
	if os.Getuid() == 0 {
		must(t, unix.Setxattr(in("deep"), "trusted.overlay.opaque", []byte("y"), 0), unix.Lsetxattr(in("in"), "trusted.overlay.redirect", []byte("in"), 0))
		must(t, unix.Lchown(in("in"), 5, 6), unix.Chown(in("deep/er"), 7, 8), unix.Chown(in("run"), 1234, 9), os.Chmod(in("run"), 0o755|os.ModeSetuid))
		must(t, unix.Mknod(in("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	}
	must(t, os.Chmod(in("empty"), 0), os.Chmod(in("deep/er"), 0o500))
	for _, name := range []string{"plain", "deep/er/file", "deep/er", "empty", "pipe"} {
		must(t, os.Chtimes(in(name), old, old))
	}
	link := []unix.Timespec{unix.NsecToTimespec(5), unix.NsecToTimespec(7e9 + 7)}
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, in("out"), link, unix.AT_SYMLINK_NOFOLLOW), os.Chmod(dir, 0o751), os.Chtimes(dir, old, old))
}

func folders(t testing.TB) (from, to string) {
	t.Helper()
	dir := t.TempDir()
	from = filepath.Join(dir, "from")
	must(t, os.Mkdir(from, 0o755))
	t.Cleanup(func() {
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	return from, filepath.Join(dir, "to")
}

func TestCopy(t *testing.T) {
	from, to := folders(t)
	furnish(t, from)
	c, err := replica.New(from, to).Copy(t.Context())
	must(t, err)
	same(t, from, to)
	if c.Files < 14 || c.Folders != 3 || c.Skipped != 0 || c.Bytes != c.Shared+c.Copied || c.Bytes < 1<<20 {
		t.Errorf("cost is %+v", c)
	}
}

// A replica that is made ahead in pieces, of a folder that changes meanwhile
// in every way, is the same in the end.
func TestAhead(t *testing.T) {
	from, to := folders(t)
	in := func(name string) string { return filepath.Join(from, name) }
	furnish(t, from)
	r := replica.New(from, to)
	must(t, r.Ahead(t.Context()))
	same := func() {
		t.Helper()
		_, err := r.Copy(t.Context())
		must(t, err)
		same(t, from, to)
	}
	fi, err := os.Stat(in("big"))
	must(t, err)
	must(t, os.WriteFile(in("big"), []byte(strings.Repeat("fedcba9876543210", 1<<16)), 0), os.Chtimes(in("big"), fi.ModTime(), fi.ModTime()))
	must(t, os.Chmod(in("deep/er"), 0o700), os.RemoveAll(in("deep/er")), os.WriteFile(in("deep/er"), []byte("a file now"), 0o600))
	must(t, os.Remove(in("pipe")), os.MkdirAll(in("pipe/dream"), 0o700), os.Remove(in("gone")))
	must(t, os.Remove(in("second")), os.WriteFile(in("second"), []byte("on its own"), 0o600))
	must(t, os.Link(in("run"), in("deep/run")), os.Chmod(in("run"), 0o511))
	must(t, os.Remove(in("in")), os.Symlink("elsewhere", in("in")))
	must(t, unix.Removexattr(in("deep"), "user.overlay.opaque"))
	same()
	must(t, os.Rename(in("deep"), in("deeper")), os.Chmod(in("big"), 0o600))
	same()
	must(t, os.RemoveAll(in("deeper")), os.RemoveAll(in("pipe")))
	same()
}

// A guest that exchanges folders for links while they are copied gets
// nothing from elsewhere into the replica.
func TestLinkOut(t *testing.T) {
	from, to := folders(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret+"/file", "secret")
	write(t, from+"/d/file", "public")
	must(t, os.Symlink(secret, from+"/link"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			unix.Renameat2(unix.AT_FDCWD, from+"/d", unix.AT_FDCWD, from+"/link", unix.RENAME_EXCHANGE)
		}
	}()
	r := replica.New(from, to)
	for range 200 {
		if err := r.Ahead(ctx); err != nil {
			t.Error(err)
		}
	}
	cancel()
	<-ended
	_, err := r.Copy(t.Context())
	must(t, err)
	same(t, from, to)
	for _, line := range picture(t, to) {
		if strings.Contains(line, `"secret"`) {
			t.Error(line)
		}
	}
}

// What is stored through a mapping does not always change a file's times.
func TestMapped(t *testing.T) {
	from, to := folders(t)
	write(t, from+"/file", strings.Repeat("-", 4096))
	f, err := os.OpenFile(from+"/file", os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(page)
	copy(page, "first")
	settle()
	r := replica.New(from, to)
	must(t, r.Ahead(t.Context()))
	copy(page, "second")
	_, err = r.Copy(t.Context())
	must(t, err)
	if text, _ := os.ReadFile(to + "/file"); !strings.HasPrefix(string(text), "second") {
		t.Errorf("replica begins with %.10q", text)
	}
}

func TestHoles(t *testing.T) {
	from, to := folders(t)
	f, err := os.Create(from + "/sparse")
	must(t, err)
	_, err = f.WriteAt([]byte("begin"), 0)
	must(t, err)
	_, err = f.WriteAt([]byte("middle"), 64<<20)
	must(t, err, f.Truncate(1<<30), f.Close())
	must(t, os.WriteFile(from+"/hole", nil, 0o600), os.Truncate(from+"/hole", 1<<20))
	c, err := replica.New(from, to).Copy(t.Context())
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Stat(to+"/sparse", &st))
	if st.Size != 1<<30 || st.Blocks*512 > 1<<20 {
		t.Errorf("copy has %d bytes in %d blocks", st.Size, st.Blocks)
	}
	if c.Bytes != 1<<30+1<<20 || c.Copied > 1<<20 && c.Shared == 0 {
		t.Errorf("cost is %+v", c)
	}
	g, err := os.Open(to + "/sparse")
	must(t, err)
	defer g.Close()
	b := make([]byte, 6)
	_, err = g.ReadAt(b, 64<<20)
	if must(t, err); string(b) != "middle" {
		t.Errorf("in the middle: %q", b)
	}
}

func TestDeep(t *testing.T) {
	from, to := folders(t)
	write(t, from+strings.Repeat("/d", 390)+"/file", "down here")
	_, err := replica.New(from, to).Copy(t.Context())
	must(t, err)
	if text, err := os.ReadFile(to + strings.Repeat("/d", 390) + "/file"); string(text) != "down here" {
		t.Errorf("at the bottom: %q, %v", text, err)
	}
}

func TestCancelled(t *testing.T) {
	from, to := folders(t)
	furnish(t, from)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := replica.New(from, to).Copy(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if _, err := replica.New(from, from+"/plain").Copy(t.Context()); !errors.Is(err, os.ErrExist) {
		t.Errorf("copy over a file: %v", err)
	}
	if _, err := replica.New(from+"/none", to+"2").Copy(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("copy of nothing: %v", err)
	}
}

// An ordinary user copies what he owns, also what its mode forbids him to read.
func TestOrdinaryUser(t *testing.T) {
	need.Root(t)
	runAsNobody(t)
}

func TestLocked(t *testing.T) {
	from, to := folders(t)
	write(t, from+"/d/file", "read me")
	must(t, os.Chmod(from+"/d/file", 0o200), os.Chmod(from+"/d", 0))
	r := replica.New(from, to)
	must(t, r.Ahead(t.Context()))
	_, err := r.Copy(t.Context())
	must(t, err)
	for _, dir := range []string{from, to} {
		var st unix.Stat_t
		if must(t, unix.Lstat(dir+"/d", &st), os.Chmod(dir+"/d", 0o700)); st.Mode&0o777 != 0 {
			t.Errorf("folder of %s has mode %o", dir, st.Mode)
		}
		if must(t, unix.Lstat(dir+"/d/file", &st), os.Chmod(dir+"/d/file", 0o600)); st.Mode&0o777 != 0o200 {
			t.Errorf("file of %s has mode %o", dir, st.Mode)
		}
		if text, err := os.ReadFile(dir + "/d/file"); string(text) != "read me" {
			t.Errorf("file of %s: %q, %v", dir, text, err)
		}
	}
}

// Both file systems that share blocks do, and what has changed in one is not
// changed in the other.
func TestShared(t *testing.T) {
	need.Root(t)
	for _, kind := range []string{"btrfs", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			dir := mount(t, kind)
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			must(t, os.Mkdir(from, 0o755))
			furnish(t, from)
			c, err := replica.New(from, to).Copy(t.Context())
			must(t, err)
			same(t, from, to)
			if c.Shared != c.Bytes || c.Copied != 0 {
				t.Errorf("cost is %+v", c)
			}
			f, err := os.OpenFile(from+"/big", os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("XXXX"), 0)
			must(t, err, f.Close())
			text, err := os.ReadFile(to + "/big")
			if must(t, err); string(text[:4]) != "0123" {
				t.Errorf("replica begins with %q", text[:4])
			}
			// To elsewhere it copies.
			if c, err = replica.New(from, filepath.Join(t.TempDir(), "to")).Copy(t.Context()); err != nil || c.Shared != 0 || c.Copied != c.Bytes {
				t.Errorf("cost is %+v, error %v", c, err)
			}
		})
	}
}

// Where blocks cannot be shared, what has not changed since an earlier
// replica is not copied again, and what has is, also by the same size at the
// same time.
func TestSince(t *testing.T) {
	from, to := folders(t)
	furnish(t, from)
	write(t, from+"/edited", "aaaa")
	must(t, os.Remove(from+"/deep/hard"), os.Remove(from+"/second"))
	settle()
	first := replica.New(from, to)
	must(t, first.Ahead(t.Context()))
	c, err := first.Copy(t.Context())
	must(t, err)
	if c.Shared > 0 {
		need.Missing(t, "a temporary folder that shares no blocks")
	}
	before := picture(t, to)
	fi, err := os.Stat(from + "/edited")
	must(t, err, os.WriteFile(from+"/edited", []byte("bbbb"), 0), os.Chtimes(from+"/edited", fi.ModTime(), fi.ModTime()))
	must(t, os.Chmod(from+"/name with\nnewline", 0o600), os.Rename(from+"/run", from+"/ran"))
	settle()
	must(t, first.Remember())
	second := replica.New(from, to+"2")
	second.Since(to)
	must(t, second.Ahead(t.Context()))
	write(t, from+"/late", "x")
	if c, err = second.Copy(t.Context()); err != nil || c.Linked < 1<<20 || c.Copied == 0 || c.Copied > 20 {
		t.Errorf("cost is %+v, %v", c, err)
	}
	same(t, from, to+"2")
	if after := picture(t, to); !slices.Equal(before, after) {
		t.Errorf("the first replica is now\n%s", strings.Join(after, "\n"))
	}
	third := replica.New(from, to+"3")
	must(t, second.Remember())
	third.Since(to + "2")
	c, err = third.Copy(t.Context())
	if must(t, err); c.Linked < 1<<20 || c.Copied > 20 {
		t.Errorf("cost is %+v", c)
	}
	same(t, from, to+"3")
	must(t, replica.Remove(to+"2"))
	same(t, from, to+"3")
	fourth := replica.New(from, to+"4")
	fourth.Since(to + "2")
	c, err = fourth.Copy(t.Context())
	if must(t, err); c.Linked != 0 {
		t.Errorf("cost is %+v", c)
	}
	same(t, from, to+"4")
}

// settle waits until what has been written is of the past to the clock of files.
func settle() {
	for old := time.Now(); time.Since(old) < 25*time.Millisecond; {
	}
}

// TestUnlockReplaced has another file take the place of one that is to be opened:
// it keeps its mode.
func TestUnlockReplaced(t *testing.T) {
	dir := t.TempDir()
	was, is := filepath.Join(dir, "was"), filepath.Join(dir, "is")
	var st unix.Stat_t
	must(t, os.WriteFile(was, nil, 0o200), os.WriteFile(is, nil, 0o200), unix.Lstat(was, &st))
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(at)
	if _, _, err := replica.Unlock(at, "is", &st, unix.O_RDONLY); err != unix.ENOENT {
		t.Errorf("%v, want ENOENT", err)
	}
	if now, err := os.Stat(is); err != nil || now.Mode().Perm() != 0o200 {
		t.Errorf("%v, %v", now, err)
	}
}
