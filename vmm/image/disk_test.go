package image

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/fs/need"
)

// debugfs has e2fsprogs look into a disk.
func debugfs(t *testing.T, disk, command string) string {
	t.Helper()
	out, err := exec.Command("/sbin/debugfs", "-R", command, disk).CombinedOutput()
	if err != nil {
		t.Fatalf("debugfs: %v\n%s", err, out)
	}
	return string(out)
}

func TestDisk(t *testing.T) {
	if _, err := os.Stat("/sbin/mke2fs"); err != nil {
		need.Missing(t, "no mke2fs")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("etc/hosts", "localhost")
	put("big", strings.Repeat("x", 3<<20))
	os.Symlink("etc/hosts", filepath.Join(root, "link"))
	for i := range 500 {
		put("f"+strings.Repeat("y", i%200)+string(rune('a'+i%26)), "")
	}
	img := Image{Name: "t", Root: root}
	disk := func() string {
		t.Helper()
		path, err := img.Disk(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := disk()
	if text := debugfs(t, first, "cat etc/hosts"); !strings.Contains(text, "localhost") {
		t.Errorf("etc/hosts is %q", text)
	}
	if text := debugfs(t, first, "stat big"); !strings.Contains(text, "Size: 3145728") || !strings.Contains(text, "User:     0") {
		t.Errorf("big: %s", text)
	}
	if again := disk(); again != first {
		t.Errorf("made again: %s", again)
	}
	put("etc/hosts", "localhost and more")
	second := disk()
	if text := debugfs(t, second, "cat etc/hosts"); !strings.Contains(text, "and more") {
		t.Errorf("etc/hosts is %q", text)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "disk-*")); len(left) != 1 || left[0] != second {
		t.Errorf("there are %q", left)
	}
	img.Root = filepath.Join(dir, "nothing")
	if _, err := img.Disk(t.Context()); err == nil {
		t.Error("a disk of nothing")
	}
}

// TestDiskTurn gives up waiting for a disk that somebody else makes.
func TestDiskTurn(t *testing.T) {
	making <- struct{}{}
	defer func() { <-making }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := (Image{Name: "t", Root: t.TempDir()}).Disk(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
