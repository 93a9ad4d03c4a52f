package share

import (
	"context"
	"errors"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
	"hutch/relay/boot"
	"hutch/vmm"
	"hutch/vmm/image"
)

// share returns a share and its folders.
func share(t *testing.T) (s *Share, work, usr string) {
	t.Helper()
	work, usr = t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(usr, "program"), []byte("text"), 0o755)
	s, err := New(vmm.Spec{Work: work, Image: image.Image{Binds: []image.Bind{{Host: usr, Guest: "/usr"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, work, usr
}

// serve returns a share, a guest's connection to it, and the folders.
func serve(t *testing.T) (s *Share, c *client.Conn, work, usr string) {
	t.Helper()
	s, work, usr = share(t)
	guest, host := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), host) }()
	c, err := client.New(t.Context(), guest, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		c.Close()
		<-served
	})
	return s, c, work, usr
}

func write(c *client.Conn, name, text string) error {
	return in(c, name, func(dir *client.Fid) error {
		err := dir.Create(context.Background(), path.Base(name), os.O_WRONLY, 0o644)
		if err == nil {
			_, err = dir.Write(context.Background(), client.Quick, []byte(text), 0)
		}
		return err
	})
}

// in does what changes a file of the directory that it is in.
func in(c *client.Conn, name string, do func(dir *client.Fid) error) error {
	return c.At(context.Background(), wire.Path(path.Dir(name)), do)
}

func remove(c *client.Conn, name string) error {
	return in(c, name, func(dir *client.Fid) error { return dir.Remove(context.Background(), path.Base(name), false) })
}

func mkdir(c *client.Conn, name string) error {
	return in(c, name, func(dir *client.Fid) error { return dir.Mkdir(context.Background(), path.Base(name), 0o755) })
}

func rename(c *client.Conn, from, to string) error {
	return in(c, from, func(dir *client.Fid) error {
		return in(c, to, func(todir *client.Fid) error {
			return dir.Rename(context.Background(), path.Base(from), todir, path.Base(to))
		})
	})
}

func TestFolders(t *testing.T) {
	s, c, work, usr := serve(t)
	list := s.List()
	if len(list) != 2 || list[0].Name != "work" || list[0].Path != "/workspace" || list[0].ReadOnly ||
		list[1].Name != "view0" || list[1].Path != "/usr" || !list[1].ReadOnly {
		t.Errorf("list is %+v", list)
	}
	if err := write(c, "work/f", "mine"); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(work, "f")); string(got) != "mine" {
		t.Errorf("the host reads %q", got)
	}
	os.Symlink(usr, filepath.Join(work, "out"))
	for name, err := range map[string]error{
		"create in a view":   write(c, "view0/f", "mine"),
		"write in a view":    overwrite(c, "view0/program"),
		"remove in a view":   remove(c, "view0/program"),
		"make in a view":     mkdir(c, "view0/d"),
		"create at the top":  write(c, "f", "mine"),
		"through a link out": overwrite(c, "work/out/program"),
		"out by dots":        overwrite(c, "work/../../"+usr+"/program"),
		"rename into a view": rename(c, "work/f", "view0/f"),
		"rename from a view": rename(c, "view0/program", "work/program"),
	} {
		if err == nil {
			t.Errorf("%s: done", name)
		}
	}
	if left, _ := os.ReadDir(usr); len(left) != 1 {
		t.Errorf("in the view is %v", left)
	}
	if text, _ := os.ReadFile(filepath.Join(usr, "program")); string(text) != "text" {
		t.Errorf("the program is %q", text)
	}
	if err := rename(c, "work/f", "work/g"); err != nil {
		t.Error(err)
	}
}

func overwrite(c *client.Conn, name string) error {
	f, err := c.Open(context.Background(), wire.Path(name), os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Clunk()
	_, err = f.Write(context.Background(), client.Quick, []byte("mine"), 0)
	return err
}

// TestMounts serves folders of a config beside those, one below the other.
func TestMounts(t *testing.T) {
	outer, inner := t.TempDir(), t.TempDir()
	s, err := New(vmm.Spec{Work: t.TempDir(), Mounts: []vmm.Mount{
		{Host: inner, Guest: "/data/inner"}, {Host: outer, Guest: "/data", ReadOnly: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	guest, host := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), host) }()
	c, err := client.New(t.Context(), guest, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close(); c.Close(); <-served }()
	want := []boot.Share{
		{Name: "work", Path: "/workspace"},
		{Name: "mount0", Path: "/data", ReadOnly: true, Live: true}, {Name: "mount1", Path: "/data/inner", Live: true},
	}
	if got := s.List(); !slices.Equal(got, want) {
		t.Errorf("list is %+v", got)
	}
	if err := write(c, "mount0/f", "mine"); err == nil {
		t.Error("wrote where the guest may only read")
	}
	if err := write(c, "mount1/f", "mine"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(inner, "f")); string(text) != "mine" {
		t.Errorf("the host reads %q, %v", text, err)
	}
}

// TestRoom has one guest open what it can: another still can, and what is
// closed can be opened again.
func TestRoom(t *testing.T) {
	r := &room{most: 8}
	guest := func() (*Share, *client.Conn) {
		s, c, work, _ := serve(t)
		s.room = r
		os.WriteFile(filepath.Join(work, "f"), nil, 0o644)
		return s, c
	}
	fill := func(c *client.Conn) (list []*client.Fid) {
		for {
			f, err := c.Open(t.Context(), wire.Path("work/f"), os.O_RDONLY)
			if errors.Is(err, syscall.ENFILE) {
				return list
			}
			if err != nil || len(list) > r.most {
				t.Fatalf("%d are open, %v", len(list), err)
			}
			list = append(list, f)
		}
	}
	s, c := guest()
	list := fill(c)
	if len(list) != 4 {
		t.Errorf("one guest has %d open", len(list))
	}
	if err := write(c, "work/new", "text"); !errors.Is(err, syscall.ENFILE) {
		t.Errorf("one too many is made: %v", err)
	}
	_, other := guest()
	more := fill(other)
	if len(more) != 2 {
		t.Errorf("another has %d open", len(more))
	}
	for _, f := range append(list, more...) {
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	made, err := c.Walk(t.Context(), wire.Path("work"))
	if err == nil {
		err = errors.Join(made.Create(t.Context(), "new", os.O_WRONLY, 0o644), made.Close(t.Context()))
	}
	if err != nil {
		t.Error(err)
	}
	if s.opened != 0 || r.open != 0 {
		t.Errorf("closed, and open are %d, of all %d", s.opened, r.open)
	}
}

// TestNames lists a directory of as many names as may be in memory, and of one
// more.
func TestNames(t *testing.T) {
	s, c, work, _ := serve(t)
	s.folders[0].MaxEntries = 2
	for n := range 4 {
		list, err := c.List(t.Context(), []string{"work"})
		described, derr := c.Describe(t.Context(), []string{"work"})
		many := n > 2
		if errors.Is(err, syscall.EOVERFLOW) != many || errors.Is(derr, syscall.EOVERFLOW) != many ||
			!many && (len(list) != n || len(described) != n) {
			t.Errorf("of %d names %d are listed, %v, %d described, %v", n, len(list), err, len(described), derr)
		}
		os.WriteFile(filepath.Join(work, string(rune('a'+n))), nil, 0o644)
	}
}

func TestPause(t *testing.T) { synctest.Test(t, pause) }

func pause(t *testing.T) {
	s, c, work, _ := serve(t)
	s.Pause()
	done := make(chan error, 1)
	go func() { done <- write(c, "work/f", "late") }()
	synctest.Wait() // until nothing moves any more
	if _, err := os.Stat(filepath.Join(work, "f")); err == nil {
		t.Error("the file is there")
	}
	s.Resume()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(work, "f")); string(got) != "late" {
		t.Errorf("after the pause the host reads %q", got)
	}
}

// TestClose closes a share whose guest waits.
func TestClose(t *testing.T) { synctest.Test(t, closing) }

func closing(t *testing.T) {
	s, c, work, _ := serve(t)
	s.Pause()
	done := make(chan error, 1)
	go func() { done <- write(c, "work/f", "late") }()
	synctest.Wait()
	s.Close()
	if err := <-done; err == nil {
		t.Error("written after the end")
	}
	if _, err := os.Stat(filepath.Join(work, "f")); err == nil {
		t.Error("the file is there")
	}
	if _, err := c.Stat(context.Background(), wire.Path("work")); !errors.Is(err, fs.ErrIO) {
		t.Errorf("a closed folder: %v", err)
	}
}
