//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/fs/need"
	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
)

// TestMounts shows a guest folders of the host, through its whole life.
func TestMounts(t *testing.T) {
	t.Parallel()
	mounts(t, serve(t, false))
}

// TestMountsLinked has a guest lead a mount into what it is to read only:
// nothing is made there.
func TestMountsLinked(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	if strings.Contains(s.read("drivers"), "layer=memory") {
		need.Missing(t, "no overlay file systems")
	}
	kept, other := t.TempDir(), t.TempDir()
	for _, args := range [][]string{
		{"create", "-v", kept + ":/data:ro", "-v", other + ":/srv/a/b", "dev"}, {"start", "dev"},
		{"exec", "dev", "sh", "-c", "mv /srv/a /srv/old && ln -s /data /srv/a"}, {"stop", "dev"},
	} {
		if out, err := s.command("hutch", args...).CombinedOutput(); err != nil {
			t.Fatalf("hutch %q: %q", args, out)
		}
	}
	out, err := s.command("hutch", "start", "dev").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mount at /srv/a/b: no folder /data/b") {
		t.Errorf("started: %q, %v", out, err)
	}
	if list, _ := os.ReadDir(kept); len(list) > 0 {
		t.Errorf("made %s on the host", list[0].Name())
	}
}

// TestMountsKept removes a VM's directory as rm -rf would: what the host shows it stays.
func TestMountsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	dir := t.TempDir()
	for name, text := range map[string]string{"file": "kept", "new": "new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.mkdir("vm/own")
	s.write("vm/own/config", "mount "+dir+":/share\n")
	s.write("vm/own/ctl", "start\n")
	s.write("vm/own/root/tmp/file", "the guest's")
	c := s.client()
	at := func(path string, f func(*client.Fid) error) error {
		return c.At(t.Context(), wire.Path("vm/own/root/"+path), f)
	}
	remove := func(name string) func(*client.Fid) error {
		return func(dir *client.Fid) error { return dir.Remove(t.Context(), name, name == "share") }
	}
	rename := func(to string) func(*client.Fid) error {
		return func(dir *client.Fid) error {
			return at(to, func(to *client.Fid) error { return dir.Rename(t.Context(), "file", to, "new") })
		}
	}
	for what, err := range map[string]error{
		"removed":     at("share", remove("file")),
		"unmounted":   at("", remove("share")),
		"renamed":     at("share", rename("share")),
		"moved out":   at("share", rename("tmp")),
		"overwritten": at("tmp", rename("share")),
	} {
		if fs.Errno(err) != syscall.EPERM {
			t.Errorf("%s: %v", what, err)
		}
	}
	at("share", remove("file"))
	if text, err := c.LastError(t.Context()); err != nil || !strings.Contains(text, "the host's folder "+dir+" is mounted there: change it there") {
		t.Errorf("said %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != "kept" {
		t.Errorf("the host has %q, %v", text, err)
	}
	s.write("vm/own/root/share/file", "new")
	if err := at("tmp", remove("file")); err != nil {
		t.Errorf("of the guest's own: %v", err)
	}
}

// TestMountsGuests has a guest write where the way to another mount leads through: it
// could put a link there, and see what that leads to.
func TestMountsGuests(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a/b", link); err != nil {
		t.Fatal(err)
	}
	for _, vm := range []string{"own", "other"} {
		s.mkdir("vm/" + vm)
	}
	s.write("vm/other/config", "mount "+dir+"/a/b:/b\n")
	s.write("vm/own/config", "mount "+dir+"/a:/a\nmount "+link+":/b\n")
	if err := s.tryWrite("vm/own/ctl", "start\n"); err == nil {
		t.Error("it started with a link")
	}
	wantText(t, s.read("vm/own/err"), "mount "+link+": the way there is through "+dir+"/a, which the guest of vm own may write")
	s.write("vm/own/config", "mount "+dir+"/a:/a\n")
	s.write("vm/own/ctl", "start\n")
	if err := s.tryWrite("vm/other/ctl", "start\n"); err == nil {
		t.Error("the other vm started")
	}
	wantText(t, s.read("vm/other/err"), "mount "+dir+"/a/b: the way there is through "+dir+"/a, which the guest of vm own may write")
	s.write("vm/other/config", "mount "+dir+"/a:/a\n")
	s.write("vm/other/ctl", "start\n")
}

// TestMountsQEMU does so with virtual machines.
func TestMountsQEMU(t *testing.T) {
	need.Patience(t)
	if testing.Short() {
		t.Skip("guests boot")
	}
	mounts(t, serveQEMU(t))
}

// TestMountsNoTree has no guest see hutchd's tree, which says what VMs do.
func TestMountsNoTree(t *testing.T) {
	t.Parallel()
	need.FUSE(t)
	s := serve(t, true)
	for _, dir := range []string{s.mount, s.path("vm"), filepath.Dir(s.mount)} {
		out, err := s.command("hutch", "run", "-v", dir+":/x", "ls", "/x").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "operation not permitted: mount "+dir+": no guest may have the ") {
			t.Errorf("%s: %q, %v", dir, out, err)
		}
	}
}

func mounts(t *testing.T, s *service) {
	here := t.TempDir()
	for _, name := range []string{"rw", "ro"} {
		os.Mkdir(filepath.Join(here, name), 0o755)
		os.WriteFile(filepath.Join(here, name, "file"), []byte("of "+name+"\n"), 0o644)
	}
	const line = `cat /mnt/rw/file /data/deep/file; echo new >/mnt/rw/made; (echo no >/data/deep/made) 2>/dev/null || echo refused`
	flags := []string{"-v", here + "/rw:/mnt/rw", "-v", here + "/ro:/data/deep:ro"}
	hutch := func(want string, args ...string) {
		t.Helper()
		cmd := s.command("hutch", args...)
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || want == "" && len(out) > 0 {
			t.Errorf("hutch %q: %q, want %q", args, out, want)
		}
	}
	seen := "of rw\nof ro\nrefused\n"
	hutch(seen, append(append([]string{"run"}, flags...), "sh", "-c", line)...)
	if text, err := os.ReadFile(filepath.Join(here, "rw", "made")); string(text) != "new\n" {
		t.Errorf("the guest made %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(here, "ro", "made")); err == nil {
		t.Error("the guest wrote where it may only read")
	}
	hutch("", append(append([]string{"create"}, flags...), "dev")...)
	hutch("", "start", "dev")
	hutch("", "suspend", "dev")
	hutch("", "resume", "dev")
	if err := s.signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	s.start()
	hutch(seen, "exec", "dev", "sh", "-c", line)
	hutch("No such file", "exec", "dev", "cat", "/data/deep/later")
	os.WriteFile(filepath.Join(here, "ro", "later"), []byte("later\n"), 0o644)
	hutch("later", "exec", "dev", "cat", "/data/deep/later")
	hutch("runs on in both", "fork", "-live", "dev", "two")
	hutch(seen, "exec", "two", "sh", "-c", line)
	hutch("", "rm", "-f", "two", "dev")
	for mount, want := range map[string]string{
		s.state() + ":/x":        "operation not permitted: mount ",
		s.state() + "/vm:/x:ro":  "operation not permitted: mount ",
		s.dir + ":/x":            "operation not permitted: mount ",
		here + "/nosuch:/x":      "file does not exist: ",
		here + "/ro/file:/x":     "not a directory: mount ",
		here + "/ro:/workspace":  "invalid argument: mount at /workspace",
		here + "/ro:relative":    "invalid argument: mount ",
		here + "/rw:/usr/nosuch": "file does not exist: mount at /usr/nosuch: no such folder in /usr, ",
	} {
		hutch("hutch: "+want, "run", "-v", mount, "true")
	}
}
