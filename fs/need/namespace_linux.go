package need

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace starts a process with a mount namespace of its own, in which all
// may open /dev/fuse, a device that it makes in dir. It goes with the test.
// Namespace returns its number.
func Namespace(t testing.TB, dir string) int {
	t.Helper()
	dev := filepath.Join(dir, "fuse")
	if err := unix.Mknod(dev, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))); err != nil {
		Missing(t, "no device files: "+err.Error())
	}
	os.Chmod(dev, 0o666)
	home := exec.Command("sh", "-c", "mount --bind "+dev+" /dev/fuse && echo ready && exec cat")
	home.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	hold, err := home.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := home.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Start(); err != nil {
		Missing(t, "no mount namespace: "+err.Error())
	}
	t.Cleanup(func() { hold.Close(); home.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		t.Fatalf("namespace: %q %v", line, err)
	}
	return home.Process.Pid
}
