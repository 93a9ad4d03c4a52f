package clients

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"hutch/fs"
)

// TestRestore has a restore put back what was, unless others would lose by it.
func TestRestore(t *testing.T) {
	before := []byte("{ \"mcpServers\" : { } }")
	h, path := newHome(t, "cursor", before)
	ctx := t.Context()
	if err := h.Restore(ctx, "cursor", false); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	os.Chmod(path, 0o640)
	for _, s := range []Server{dev, {"hutch", []string{"mcp"}}} {
		if err := h.Add(ctx, "cursor", s); err != nil {
			t.Fatal(err)
		}
	}
	ours := read(t, path)
	os.WriteFile(path, bytes.Replace(ours, []byte("{"), []byte(`{ "theirs": 1, `), 1), 0o640)
	if err := h.Restore(ctx, "cursor", false); err != nil {
		t.Error(err)
	}
	if text := string(read(t, path)); !strings.Contains(text, `"theirs": 1`) || strings.Contains(text, dev.Name) {
		t.Errorf("of what others wrote is left %s", text)
	}
	if s, err := h.Status(ctx, "cursor"); err != nil || !s.TakenOut || len(s.Servers) > 0 {
		t.Errorf("the status is %+v, %v", s, err)
	}
	nothing := func() {
		t.Helper()
		if err := h.Restore(ctx, "cursor", false); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "restore -f cursor") {
			t.Errorf("of a file without a server of hutch's: %v", err)
		}
	}
	nothing()
	os.Remove(path)
	nothing()
	os.WriteFile(path, ours, 0o640)
	os.Chmod(path, 0o600)
	if err := h.Restore(ctx, "cursor", false); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(path); string(read(t, path)) != string(before) || info.Mode() != 0o640 {
		t.Errorf("%v: %s", info.Mode(), read(t, path))
	}
	if err := h.Restore(ctx, "cursor", false); !errors.Is(err, fs.ErrNotExist) {
		t.Error("restored twice:", err)
	}
	// force
	if err := h.Add(ctx, "cursor", dev); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(path, []byte("{}"), 0o640)
	if err := h.Restore(ctx, "cursor", true); err != nil || string(read(t, path)) != string(before) {
		t.Error(err)
	}
}

// TestBackupIsOfTheFirst has what stands between two times that hutch was in a
// file be what is restored.
func TestBackupIsOfTheFirst(t *testing.T) {
	h, path := newHome(t, "codex", []byte("a = 1\n"))
	ctx := t.Context()
	if err := errors.Join(h.Add(ctx, "codex", dev), h.Remove(ctx, "codex", dev.Words)); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(path, []byte("a = 2\n"), 0o644)
	if err := errors.Join(h.Add(ctx, "codex", dev), h.Add(ctx, "codex", Server{"x", []string{"mcp"}}), h.Restore(ctx, "codex", false)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); string(got) != "a = 2\n" {
		t.Errorf("%q", got)
	}
}
