package clients

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/need"
)

// TestLink has a link to a file of the user's own stay, and that file change.
func TestLink(t *testing.T) {
	h, path := newHome(t, "cursor", nil)
	dots := filepath.Join(h.Dir, "dots")
	real := filepath.Join(dots, "cursor.json")
	if err := errors.Join(os.Mkdir(dots, 0o755), os.WriteFile(real, []byte("{}\n"), 0o644), os.Symlink("../dots/cursor.json", path)); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(t.Context(), "cursor", dev); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(path); err != nil || to != "../dots/cursor.json" {
		t.Errorf("%q, %v", to, err)
	}
	if !strings.Contains(string(read(t, real)), "mcp-session") {
		t.Error("not in the file")
	}
	s, err := h.Status(t.Context(), "cursor")
	if err != nil || s.File != path || s.Real != real {
		t.Errorf("%+v, %v", s, err)
	}
	if err := h.Restore(t.Context(), "cursor", false); err != nil || string(read(t, real)) != "{}\n" {
		t.Errorf("%v: %s", err, read(t, real))
	}
	os.Remove(real)
	if err := h.Add(t.Context(), "cursor", dev); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "leads nowhere") {
		t.Error(err)
	}
	if _, err := os.Lstat(real); err == nil {
		t.Error("a link that leads nowhere leads somewhere")
	}
}

// TestNoFile has what is no file be refused, and not waited for.
func TestNoFile(t *testing.T) {
	h, path := newHome(t, "cursor", nil)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(t.Context(), "cursor", dev); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	os.Remove(path)
	os.Mkdir(path, 0o700)
	if err := h.Add(t.Context(), "cursor", dev); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// TestAnothers has the files of other users be left alone, by root, too.
func TestAnothers(t *testing.T) {
	need.Root(t) // to give files away
	const other = 4711
	for _, c := range []struct {
		name, says string
		give       func(h *Home, path string) error
	}{
		{"home", "is another user's home", func(h *Home, path string) error { return os.Chown(h.Dir, other, -1) }},
		{"folder", "the folder of ~/.cursor/mcp.json", func(h *Home, path string) error { return os.Chown(filepath.Dir(path), other, -1) }},
		{"file", "belongs to another user", func(h *Home, path string) error { return os.Chown(path, other, -1) }},
		{"link", "belongs to another user", func(h *Home, path string) error {
			real := filepath.Join(h.Dir, "x")
			return errors.Join(os.Rename(path, real), os.Symlink(real, path), os.Chown(real, other, -1))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, path := newHome(t, "cursor", []byte("{}"))
			if err := c.give(h, path); err != nil {
				t.Fatal(err)
			}
			if err := h.Add(t.Context(), "cursor", dev); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
			if string(read(t, path)) != "{}" {
				t.Error("the file was touched")
			}
			if s, err := h.Status(t.Context(), "cursor"); err != nil || s.Err == nil {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// TestGroup has a file keep its group and its mode.
func TestGroup(t *testing.T) {
	need.Root(t) // for a group of another's
	h, path := newHome(t, "cursor", []byte("{}"))
	if err := errors.Join(os.Chown(path, -1, 4711), os.Chmod(path, 0o664)); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(t.Context(), "cursor", dev); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o664 || info.Sys().(*syscall.Stat_t).Gid != 4711 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestChanged has a change that somebody else makes meanwhile be kept.
func TestChanged(t *testing.T) {
	h, path := newHome(t, "cursor", []byte("{}"))
	c, _ := Find("cursor")
	others := `{"theirs": 1}`
	times := 0
	err := h.change(t.Context(), c, true, func(text []byte) ([]byte, error) {
		if times++; times == 1 {
			os.WriteFile(path+"~", []byte(others), 0o644)
			os.Rename(path+"~", path)
		}
		return c.put(text, "dev", program{"x", nil})
	})
	if text := string(read(t, path)); err != nil || times != 2 || !strings.Contains(text, "theirs") || !strings.Contains(text, "dev") {
		t.Errorf("%v, %d times: %s", err, times, text)
	}
	err = h.change(t.Context(), c, true, func(text []byte) ([]byte, error) {
		times++
		os.WriteFile(path+"~", []byte(strings.Repeat(" ", times)), 0o644)
		os.Rename(path+"~", path)
		return c.put(text, "dev", program{"y", nil})
	})
	if !errors.Is(err, fs.ErrBusy) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(path + fresh); left != nil {
		t.Error("left behind:", left)
	}
}

// TestLock has a change wait for another hutch, and no longer than its context.
func TestLock(t *testing.T) {
	h, path := newHome(t, "cursor", []byte("{}"))
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.Add(ctx, "cursor", dev); !errors.Is(err, context.DeadlineExceeded) || string(read(t, path)) != "{}" {
		t.Error(err)
	}
	d.Close()
	if err := h.Add(t.Context(), "cursor", dev); err != nil {
		t.Error(err)
	}
}

// TestSweep has what was being written when a process was killed be gone, if
// it is ours, and nobody writes it now.
func TestSweep(t *testing.T) {
	h, path := newHome(t, "cursor", []byte("{}"))
	if err := errors.Join(h.Add(t.Context(), "cursor", dev), os.WriteFile(path+fresh, []byte("token"), 0o600), os.WriteFile(filepath.Join(h.Backups, ".new-1"), []byte("token"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if h.Sweep(ctx); string(read(t, path+fresh)) != "token" {
		t.Error("what another writes is gone")
	}
	d.Close()
	h.Sweep(t.Context())
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	kept, err := os.ReadDir(h.Backups)
	if len(left) != 1 || len(kept) != 2 || err != nil {
		t.Errorf("%v, %v, %v", left, kept, err)
	}
	if err := h.Restore(t.Context(), "cursor", false); err != nil {
		t.Error(err)
	}
}

// TestTurn has nobody read a file who went away, nor while another does.
func TestTurn(t *testing.T) {
	h, path := newHome(t, "cursor", []byte("{}"))
	end, err := turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waits, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	try := func(ctx context.Context, want error) {
		t.Helper()
		if _, err := h.Status(ctx, "cursor"); !errors.Is(err, want) {
			t.Error(err)
		}
		if err := h.Add(ctx, "cursor", dev); !errors.Is(err, want) || string(read(t, path)) != "{}" {
			t.Error(err)
		}
	}
	try(waits, context.DeadlineExceeded)
	end()
	try(gone, context.Canceled)
	if err := h.Add(t.Context(), "cursor", dev); err != nil {
		t.Error(err)
	}
}
