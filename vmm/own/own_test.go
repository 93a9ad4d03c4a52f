package own

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/fs/mountinfo"
)

// world lays a service's things below a folder, and returns them.
func world(t *testing.T) (top string, items []Item) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"var/state/vm", "run/hutch", "usr/bin", "etc", "plain/deep", "cover"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(top, "run/hutch/9p"), nil, 0o600)
	os.Symlink("var/state", filepath.Join(top, "link"))
	return top, []Item{
		{What: "the state", Path: filepath.Join(top, "link")},
		{What: "the socket", Path: filepath.Join(top, "run/hutch/9p")},
		{What: "the programs", Path: filepath.Join(top, "usr/bin"), Readable: true},
		{What: "what corp says", Path: filepath.Join(top, "etc/hutch/corp"), Readable: true},
	}
}

// refuses asks of each folder below top, with " ro" behind it to read only, and wants
// what it refuses for, "" for nothing.
func refuses(t *testing.T, l *List, top string, want map[string]string) {
	t.Helper()
	for name, what := range want {
		dir, ro := strings.CutSuffix(name, " ro")
		err := l.Refuse(filepath.Join(top, dir), ro)
		switch {
		case what == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case what != "" && (!fs.Is(err, fs.ErrNotPermitted) || !strings.Contains(err.Error(), what)):
			t.Errorf("%s: %v, want %s", name, err, what)
		}
	}
}

func TestRefuse(t *testing.T) {
	top, items := world(t)
	refuses(t, New(items), top, map[string]string{
		"": "the state", "var ro": "the state", "var/state": "the state", "var/state/vm ro": "the state", "link": "the state",
		"run": "the socket", "run/hutch ro": "the socket",
		"usr": "the programs", "usr/bin": "the programs", "usr ro": "", "usr/bin ro": "",
		"etc": "what corp says", "etc ro": "", // it is not there yet
		"plain": "", "plain/deep ro": "",
	})
}

func TestMounted(t *testing.T) {
	table := mountinfo.Parse(`22 1 8:1 / / rw - ext4 /dev/sda1 rw
64 22 0:40 / /mnt/my\040hutch rw,nosuid - fuse.hutch hutch rw,user_id=0
65 22 0:41 / /mnt/other rw - fuse.sshfs host rw
66 22 0:42 / /mnt/kernel rw - 9p /run/hutch/9p rw,trans=unix
67 22 0:43 / /mnt/files rw - 9p /run/other rw,trans=unix
68 22 0:44 / /chroot/proc rw - proc proc rw
`)
	const tree = "/mnt/my hutch"
	l := &List{items: []Item{{Path: "/run/hutch/9p"}}}
	for dir, want := range map[string]string{
		"/": tree, "/mnt": tree, tree: tree, tree + "/vm/x/work": tree, "/mnt/my": "", "/mnt/my hutch2": "", "/mnt/other": "", "/srv": "",
		"/mnt/kernel/vm": "/mnt/kernel", "/mnt/files": "",
		"/chroot": "/chroot/proc", "/chroot/proc/1/fd": "/chroot/proc", "/chroot/usr": "",
	} {
		if got, ok := l.mounted(table, dir); got.Path != want || ok != (want != "") {
			t.Errorf("%s: %v, want %q", dir, got, want)
		}
	}
}

// TestRefuseFile opens files by links, and one that is where another is seen.
func TestRefuseFile(t *testing.T) {
	top, items := world(t)
	for _, name := range []string{"var/state/key", "usr/bin/hutchd", "plain/token"} {
		os.WriteFile(filepath.Join(top, name), []byte("x"), 0o600)
	}
	os.Symlink("../var/state/key", filepath.Join(top, "plain/link"))
	os.Symlink("../link", filepath.Join(top, "plain/folder"))
	l := New(items)
	for name, what := range map[string]string{
		"var/state/key": "the state", "plain/link": "the state", "plain/folder/key": "the state", "link/key": "the state",
		"usr/bin/hutchd": "", "plain/token": "", "/proc/self/environ": "the process", "/proc/self/root" + top + "/var/state/key": "the state",
	} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(top, name)
		} else if runtime.GOOS != "linux" {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		switch err := l.RefuseFile(f); {
		case what == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case what != "" && (!fs.Is(err, fs.ErrNotPermitted) || !strings.Contains(err.Error(), what)):
			t.Errorf("%s: %v, want %s", name, err, what)
		}
		f.Close()
	}
}
