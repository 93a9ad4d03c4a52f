//go:build linux

package qemu_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestVsock runs the test of relay/vsock in a guest, whose kernel connects it
// with itself.
func TestVsock(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir)
	v, err := table.Make(limit(t), "dev")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Kill(context.Background()) // where the test fails early
	cmd := exec.Command("go", "test", "-c", "-o", filepath.Join(v.WorkDir(), "vsock.test"), "hutch/relay/vsock")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start(t, v)
	wantOutput(t, v, "HUTCH_TEST_VSOCK=loopback ./vsock.test -test.v -test.run 'TestLoopback|TestSwitch' 2>&1 | grep -v '^=== ' | sed 's/ (.*//'", "--- PASS: TestLoopback\n--- PASS: TestSwitch\nPASS\n")
	if err := errors.Join(v.Kill(limit(t)), table.Remove(limit(t), "dev"), table.Close(limit(t))); err != nil {
		t.Error(err)
	}
}
