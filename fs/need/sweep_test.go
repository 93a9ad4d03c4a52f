//go:build linux

package need_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// TestSweep kills a test that has a process, and waits for both to be gone.
func TestSweep(t *testing.T) {
	if dir := os.Getenv("HUTCH_TEST_SWEPT"); dir != "" {
		sweptTest(t, dir)
		return
	}
	dir, err := os.MkdirTemp("", "hutch-sweep-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	gone := filepath.Join(t.TempDir(), "gone") // both of its ends are the process's
	if err := syscall.Mkfifo(gone, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSweep$")
	cmd.Env = append(os.Environ(), "HUTCH_TEST_SWEPT="+dir, "HUTCH_TEST_GONE="+gone)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "started" {
		t.Fatalf("%q, %v", line, err)
	}
	held, err := os.OpenFile(gone, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	cmd.Process.Kill()
	cmd.Wait()
	if n, err := held.Read(make([]byte, 1)); n != 0 {
		t.Fatalf("read %d, %v: the process lives", n, err)
	}
	for ; err == nil; _, err = os.Stat(dir) { // go test bounds it
		time.Sleep(10 * time.Millisecond)
	}
}

// sweptTest is the test that is killed.
func sweptTest(t *testing.T, dir string) {
	need.Sweep(t, dir)
	cmd := exec.Command("sh", "-c", `exec 3<>"$1"; echo started; read line <&3`, "sh", os.Getenv("HUTCH_TEST_GONE"), dir+"/here")
	cmd.Stdout = os.Stdout
	t.Fatal(cmd.Run())
}
