package main

import (
	"os"
	"path/filepath"
	"testing"

	"hutch/fs"
	"hutch/vmm/own"
)

// TestOwnedLinks has a guest write no folder that a link of the programs' folder leads to.
func TestOwnedLinks(t *testing.T) {
	dir := t.TempDir()
	bin, kernel := filepath.Join(dir, "bin"), filepath.Join(dir, "kernel")
	for _, name := range []string{bin, kernel} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(kernel, filepath.Join(bin, "kernel")); err != nil {
		t.Fatal(err)
	}
	l := own.New(owned(options{bin: bin, listen: "tcp!127.0.0.1!0"}, filepath.Join(bin, "hutchd")))
	if err := l.Refuse(kernel, false); !fs.Is(err, fs.ErrNotPermitted) {
		t.Errorf("the kernel may be written: %v", err)
	}
	if err := l.Refuse(kernel, true); err != nil {
		t.Error(err)
	}
}
