package fuse

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// attributed needs a host folder that takes attributes.
func attributed(t *testing.T, s *served) {
	t.Helper()
	if err := unix.Setxattr(s.work, "user.x", nil, 0); err != nil {
		need.Missing(t, "no extended attributes in "+s.work+": "+err.Error())
	}
	unix.Removexattr(s.work, "user.x")
}

// The attributes that users give pass both ways, others do not.
func TestHostAttributes(t *testing.T) {
	s := serving(t)
	attributed(t, s)
	host, work := filepath.Join(s.work, "f"), s.path("work/f")
	os.WriteFile(host, []byte("text"), 0o644)
	if err := unix.Setxattr(host, "user.guest", []byte("of the guest"), 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		unix.Setxattr(host, "trusted.guest", []byte("hidden"), 0)
	}
	p := make([]byte, 100)
	if n, err := unix.Getxattr(work, "user.guest", p); err != nil || string(p[:n]) != "of the guest" {
		t.Errorf("the guest's: %q, %v", p[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(work, "user.guest", p[:3]); err != unix.ERANGE {
		t.Errorf("with little room: %v", err)
	}
	big := bytes.Repeat([]byte("x"), 2000)
	if err := unix.Setxattr(work, "user.host", big, unix.XATTR_CREATE); err != nil {
		t.Error(err)
	}
	if err := unix.Setxattr(work, "user.host", big, unix.XATTR_CREATE); err != unix.EEXIST {
		t.Errorf("made twice: %v", err)
	}
	if got, err := unix.Getxattr(host, "user.host", make([]byte, 3000)); got != len(big) {
		t.Errorf("the host's: %d bytes, %v", got, err)
	}
	n, err := unix.Listxattr(work, p)
	if names := string(p[:max(n, 0)]); err != nil || names != "user.guest\x00user.host\x00" && names != "user.host\x00user.guest\x00" {
		t.Errorf("listed %q, %v", names, err)
	}
	if size, err := unix.Listxattr(work, nil); err != nil || size != n {
		t.Errorf("the list takes %d, %v", size, err)
	}
	if err := unix.Removexattr(work, "user.guest"); err != nil {
		t.Error(err)
	}
	if _, err := unix.Getxattr(host, "user.guest", p); err != unix.ENODATA {
		t.Errorf("after its removal: %v", err)
	}
	for _, name := range []string{"security.capability", "trusted.guest", "system.posix_acl_access"} {
		if err := unix.Setxattr(work, name, []byte("x"), 0); err == nil {
			t.Errorf("%s can be set", name)
		}
		if _, err := unix.Getxattr(work, name, p); err == nil {
			t.Errorf("%s can be got", name)
		}
	}
	if _, err := unix.Getxattr(s.path("status"), "user.x", p); err != unix.EOPNOTSUPP {
		t.Errorf("of a made-up file: %v", err)
	}
	t.Run("copies", func(t *testing.T) {
		need.Tool(t, "rsync")
		need.Tool(t, "getfattr")
		out, err := s.sh("dash", "cp --preserve=all work/f work/g && cd work && rsync -X f h && getfattr -d g h | grep -c host=")
		if err != nil || out != "2\n" {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// statx gives the time of birth.
func TestHostBirth(t *testing.T) {
	s := serving(t)
	os.WriteFile(filepath.Join(s.work, "f"), []byte("text"), 0o640)
	var there, here, madeUp unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	if err := unix.Statx(unix.AT_FDCWD, filepath.Join(s.work, "f"), 0, mask, &there); err != nil || there.Mask&unix.STATX_BTIME == 0 {
		need.Missing(t, "no time of birth in "+s.work)
	}
	if err := unix.Statx(unix.AT_FDCWD, s.path("status"), 0, mask, &madeUp); err != nil {
		t.Error(err)
	}
	if err := unix.Statx(unix.AT_FDCWD, s.path("work/f"), 0, mask, &here); err != nil {
		t.Fatal(err)
	}
	if here.Mask&unix.STATX_BTIME == 0 {
		need.Missing(t, "the kernel asks no FUSE server for the time of birth")
	}
	if here.Btime != there.Btime || here.Size != 4 || here.Mode != there.Mode || here.Mtime != there.Mtime || here.Nlink != 1 {
		t.Errorf("here %+v\nthere %+v", here, there)
	}
}

// A file without a name is made, used and given one.
func TestHostTmpfile(t *testing.T) {
	s := serving(t)
	probe, err := unix.Open(s.work, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		need.Missing(t, "no O_TMPFILE in "+s.work)
	}
	unix.Close(probe)
	fd, err := unix.Open(s.path("work"), unix.O_TMPFILE|unix.O_RDWR, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "unnamed")
	defer f.Close()
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes[:2] {
		if err := c.do(fd); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if list, _ := os.ReadDir(s.work); len(list) > 0 {
		t.Errorf("it has a name: %v", list)
	}
	if err := unix.Linkat(unix.AT_FDCWD, procPath(fd), unix.AT_FDCWD, s.path("work/named"), unix.AT_SYMLINK_FOLLOW); err != nil {
		t.Fatal(err)
	}
	f.WriteString(" and more")
	if text, err := os.ReadFile(filepath.Join(s.work, "named")); string(text) != "text and more" {
		t.Errorf("%q, %v", text, err)
	}
	if fi, err := os.Stat(s.path("work/named")); err != nil || fi.Mode() != 0o600 || fi.Size() != 13 {
		t.Errorf("%v, %v", fi, err)
	}
}

// Who is not root takes the setuid bit from a file by writing it.
func TestSetuidGoesWithWrites(t *testing.T) {
	need.Root(t)
	need.FUSE(t)
	for name, change := range map[string]string{"write": "echo x >>f", "truncate": "truncate -s 1 f", "open": ": >f"} {
		t.Run(name, func(t *testing.T) {
			s := folders(t)
			s.whom = "all"
			if err := s.start(); err != nil {
				t.Fatal(err)
			}
			walkable(s.dir)
			host := filepath.Join(s.work, "f")
			os.WriteFile(host, []byte("text"), 0o777)
			unix.Chmod(host, 0o6777)
			cmd := s.command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash", "-c", "cd "+s.path("work")+" && "+change)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var st unix.Stat_t
			if err := unix.Stat(host, &st); err != nil || st.Mode&0o7777 != 0o777 {
				t.Errorf("mode %o, %v", st.Mode, err)
			}
		})
	}
}
