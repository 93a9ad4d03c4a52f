//go:build linux

package gvisor_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// nobody is an ordinary user that every system has.
const nobody = 65534

// TestAsOrdinaryUser runs this package's other tests again, as a user without
// any power.
func TestAsOrdinaryUser(t *testing.T) {
	cmd := asNobody(t, "-test.v", "-test.skip=^TestAsOrdinaryUser$|^TestWithoutUserNamespaces$", "-test.timeout=8m")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "rootless=yes") {
		t.Errorf("no sandbox was rootless:\n%s", out)
	}
}

// TestWithoutUserNamespaces runs a start where an ordinary user may have none.
func TestWithoutUserNamespaces(t *testing.T) {
	if os.Getenv("HUTCH_TEST_GUEST") != "" {
		_, err := newDriver(t, t.TempDir()).Probe(limit(t))
		want := "not supported: user namespaces are forbidden here and hutchd is not root ("
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("probe says %v, want %s…)", err, want)
		}
		return
	}
	// In a user namespace of its own, the limit can be changed for its user.
	cmd := asNobody(t, "-test.run=^TestWithoutUserNamespaces$")
	unshare := need.Tool(t, "unshare")
	need.Tool(t, "setpriv")
	script := `echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`
	cmd.Path = unshare
	cmd.Args = append([]string{"unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"}, cmd.Args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// asNobody returns a command that runs this test program as an ordinary user.
func asNobody(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	need.Root(t)
	newBench(t)
	dir, err := os.MkdirTemp("", "hutch-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	guest, err := guestProgram()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := agentProgram()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(install(t, self, dir, "test"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp,
		"HUTCH_RUNSC="+install(t, runsc(t), dir, "runsc"), "HUTCH_TEST_GUEST="+install(t, guest, dir, "guest"),
		"HUTCH_TEST_AGENT="+install(t, agent, dir, "agent"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// install copies a program to where anyone can run it.
func install(t *testing.T, from, dir, name string) string {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(dir, name)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
