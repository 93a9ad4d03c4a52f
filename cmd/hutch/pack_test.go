package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hutch/fs"
)

// An archive that cannot be made leaves the file that has its name.
func TestPackFile(t *testing.T) {
	_, c := serve(t, t.Context())
	dir := t.TempDir()
	out := filepath.Join(dir, "archive")
	if err := os.WriteFile(out, []byte("of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := packFile(t.Context(), c, "vm/none", out, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pack of no VM: %v", err)
	}
	if text, _ := os.ReadFile(out); string(text) != "of yesterday" {
		t.Errorf("the file has %q", text)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}
