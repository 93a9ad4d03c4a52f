//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCopy copies a folder in and out: modes and holes stay, and what cannot be copied
// is told of and costs nothing else.
func TestCopy(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	from, back := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "back")
	files := map[string]os.FileMode{"run": 0o755, "open": 0o666, "closed": 0o400, "ro/f": 0o444, "sparse": 0o600, "zz": 0o644}
	for name, mode := range files {
		path := filepath.Join(from, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, mode) // whatever the umask is
	}
	const size = 64 << 20
	if err := os.Truncate(filepath.Join(from, "sparse"), size); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(from, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(from, "ro"), 0o555)
	t.Cleanup(func() { os.Chmod(filepath.Join(from, "ro"), 0o755); os.Chmod(filepath.Join(back, "ro"), 0o755) })
	out, err := s.command("hutch", "cp", from, "dev:there").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fifo is a named pipe") {
		t.Errorf("with a pipe: %v %s", err, out)
	}
	if out, err := s.command("hutch", "cp", "dev:there", back).CombinedOutput(); err != nil {
		t.Fatalf("back: %v %s", err, out)
	}
	files["ro"] = 0o555
	for name, mode := range files {
		st, err := os.Stat(filepath.Join(back, name))
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", name, err, st.Mode(), mode)
		}
	}
	for _, path := range []string{filepath.Join(back, "sparse"), filepath.Join(s.state(), "vm/dev/work/there/sparse")} {
		st, err := os.Stat(path)
		if err != nil || st.Size() != size || st.Sys().(*syscall.Stat_t).Blocks*512 > 1<<20 {
			t.Errorf("%s: %v, %d bytes in %d blocks", path, err, st.Size(), st.Sys().(*syscall.Stat_t).Blocks)
		}
	}
	if text, err := os.ReadFile(filepath.Join(back, "sparse")); err != nil || !strings.HasPrefix(string(text), "sparse\x00") {
		t.Errorf("sparse: %v", err)
	}
}
