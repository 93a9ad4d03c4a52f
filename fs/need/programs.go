package need

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Programs returns the folder of hutchd and all that it runs: $HUTCH_BIN, or
// the module's bin, where they are built first if they are not up to date.
func Programs(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("HUTCH_BIN"); dir != "" {
		return dir
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// QEMU returns the folder with the kernel that machines of QEMU boot: kernel
// beside the programs, where mk kernel puts it.
func QEMU(t testing.TB) string {
	t.Helper()
	Tool(t, "qemu-system-x86_64")
	dir := filepath.Join(Programs(t), "kernel")
	if found, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*")); len(found) == 0 {
		Missing(t, "no kernel in "+dir+": mk kernel puts one there")
	}
	return dir
}

// programs builds once in a process. Test programs that run side by side
// wait for each other; the second finds all up to date.
var programs = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	top := strings.TrimSpace(string(out))
	bin := filepath.Join(top, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	return bin, errors.Join(
		build(top, "build", "-o", bin+"/", "./cmd/..."),
		build(top, "build", "-C", filepath.Join("vmm", "gvisor", "runsc"), "-ldflags", "-s -w",
			"-o", filepath.Join(bin, "runsc"), "."),
	)
})

// build runs go in dir, for programs that run in any guest: static, and
// without the race detector that tests may have.
func build(dir string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
