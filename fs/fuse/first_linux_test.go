package fuse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A sides is a file as the guest has it, which changes it in the folder, and
// as the host has it, which looks at it through the mount.
type sides struct {
	guest, host string
	held        *os.File // opened through the mount, once
	text        []byte   // what is in the file
	after       func()
}

func (s *served) sides(name, text string) *sides {
	s.t.Helper()
	f := &sides{guest: filepath.Join(s.work, name), host: s.path("work/" + name), text: []byte(text), after: s.after}
	if err := os.WriteFile(f.guest, f.text, 0o644); err != nil {
		s.t.Fatal(err)
	}
	held, err := os.OpenFile(f.host, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { held.Close() })
	f.held = held
	f.look() // so that there is something to be known
	return f
}

func (f *sides) look() { os.Stat(f.host); f.held.Stat() }

// grow has the guest make the file longer.
func (f *sides) grow(round int) error {
	more := fmt.Appendf(nil, "round %d\n", round)
	f.text = append(f.text, more...)
	g, err := os.OpenFile(f.guest, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer g.Close()
	_, err = g.Write(more)
	if f.after != nil {
		f.after()
	}
	return err
}

// size wants what a stat says to be the size of the file.
func (f *sides) size(fi fs.FileInfo, err error) error {
	if err == nil && fi.Size() != int64(len(f.text)) {
		err = fmt.Errorf("size %d, want %d", fi.Size(), len(f.text))
	}
	return err
}

func (f *sides) same(b []byte, err error) error {
	if err == nil && !bytes.Equal(b, f.text) {
		err = fmt.Errorf("%d bytes, want %d", len(b), len(f.text))
	}
	return err
}

// put has the host write more with w, and wants that to be after all else.
func (f *sides) put(w io.Writer) error {
	f.text = append(f.text, "host\n"...)
	if _, err := io.WriteString(w, "host\n"); err != nil {
		return err
	}
	return f.same(os.ReadFile(f.guest))
}

// mapped reads the file of fd as a map of its size.
func mapped(fd *os.File, flags int) (text []byte, err error) {
	fi, err := fd.Stat()
	if err != nil || fi.Size() == 0 {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("map of %d bytes: %v", fi.Size(), r)
		}
	}()
	m, err := unix.Mmap(int(fd.Fd()), 0, int(fi.Size()), unix.PROT_READ, flags)
	if err != nil {
		return nil, err
	}
	defer unix.Munmap(m)
	return bytes.Clone(m), nil
}

// firsts are first calls of the host after the guest made the file longer.
var firsts = []struct {
	what string
	call func(*sides) error
}{
	{"stat", func(f *sides) error { return f.size(os.Stat(f.host)) }},
	{"fstat", func(f *sides) error { return f.size(f.held.Stat()) }},
	{"read", func(f *sides) error { return f.same(os.ReadFile(f.host)) }},
	{"pread", func(f *sides) error {
		b := make([]byte, len(f.text)+1)
		n, err := f.held.ReadAt(b, 0)
		if err == io.EOF {
			err = nil
		}
		return f.same(b[:n], err)
	}},
	{"seek to the end", func(f *sides) error {
		if _, err := f.held.Seek(0, io.SeekEnd); err != nil {
			return err
		}
		return f.put(f.held)
	}},
	{"append", func(f *sides) error {
		w, err := os.OpenFile(f.host, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer w.Close()
		return f.put(w)
	}},
	{"copy", func(f *sides) error { // by copy_file_range, which stops at the size that the kernel knows
		r, err := os.Open(f.host)
		if err != nil {
			return err
		}
		defer r.Close()
		w, err := os.Create(f.host + "-copy")
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
		return f.same(os.ReadFile(f.guest + "-copy"))
	}},
	{"map", func(f *sides) error { return f.same(mapped(f.held, unix.MAP_SHARED)) }},
	{"private map", func(f *sides) error { return f.same(mapped(f.held, unix.MAP_PRIVATE)) }},
	{"list", func(f *sides) error {
		list, err := os.ReadDir(filepath.Dir(f.host))
		for _, e := range list {
			if e.Name() == filepath.Base(f.host) {
				return f.size(e.Info())
			}
		}
		return errors.Join(err, fs.ErrNotExist)
	}},
}

// What the guest changed the host sees with its first call after it.
func TestHostFirstCall(t *testing.T) { firstCalls(t, serving(t), 200) }

// The same where the kernel does not read and write by itself.
func TestOrdinaryUserFirstCall(t *testing.T) {
	s := ordinary(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := s.command(copyOf(t, exe), "-test.run=^TestFirstCallsThere$", "-test.count=1")
	c.Env = append(os.Environ(), "HUTCH_FUSE_TEST_THERE="+s.dir+":"+s.work)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// It is a part of TestOrdinaryUserFirstCall, whose mount only its user sees.
func TestFirstCallsThere(t *testing.T) {
	mount, work, ok := strings.Cut(os.Getenv("HUTCH_FUSE_TEST_THERE"), ":")
	if !ok {
		return
	}
	firstCalls(t, &served{t: t, dir: mount, work: work}, 50)
}

func firstCalls(t *testing.T, s *served, rounds int) {
	for i, c := range firsts {
		t.Run(c.what, func(t *testing.T) {
			f := s.sides(fmt.Sprint("f", i), "text\n")
			for round := range rounds {
				f.look()
				if err := f.grow(round); err != nil {
					t.Fatal(err)
				}
				if err := c.call(f); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		})
	}
	t.Run("map of what shrank", func(t *testing.T) {
		f := s.sides("shrinks", "")
		for round := range rounds {
			f.text = bytes.Repeat([]byte{byte('a' + round%26)}, 9000)
			if err := os.WriteFile(f.guest, f.text, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := f.same(mapped(f.held, unix.MAP_SHARED)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			f.text = f.text[:100]
			if err := os.Truncate(f.guest, 100); err != nil {
				t.Fatal(err)
			}
			if err := f.same(mapped(f.held, unix.MAP_SHARED)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	})
	t.Run("same size", func(t *testing.T) {
		f := s.sides("same", strings.Repeat("-", 5000))
		for round := range rounds {
			f.text = bytes.Repeat([]byte{byte('a' + round%26)}, 5000)
			g, err := os.OpenFile(f.guest, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			g.Write(f.text)
			g.Close()
			b := make([]byte, len(f.text))
			_, err = f.held.ReadAt(b, 0)
			if err := errors.Join(f.same(b, err), f.same(mapped(f.held, unix.MAP_SHARED))); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	})
	t.Run("names", func(t *testing.T) { firstNames(t, s, rounds) })
	if s.after == nil {
		t.Run("raced", func(t *testing.T) { raced(t, s, rounds*10) })
	}
}

// firstNames has the guest change names, modes and links below d.
func firstNames(t *testing.T, s *served, rounds int) {
	guest, host := filepath.Join(s.work, "d"), s.path("work/d")
	in := func(name string) string { return filepath.Join(guest, name) }
	at := func(name string) string { return filepath.Join(host, name) }
	must := func(round int, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if s.after != nil {
			s.after()
		}
	}
	names := func(want ...string) error {
		list, err := os.ReadDir(host)
		var got []string
		for _, e := range list {
			got = append(got, e.Name())
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("listed %v, want %v", got, want)
		}
		return err
	}
	is := func(name, want string) error {
		b, err := os.ReadFile(at(name))
		if err == nil && string(b) != want {
			err = fmt.Errorf("%s has %q, want %q", name, b, want)
		}
		return err
	}
	gone := func(name string) error {
		if _, err := os.Stat(at(name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %v", name, err)
		}
		return nil
	}
	must(0, os.Mkdir(guest, 0o755))
	for i := range rounds {
		must(i, gone("a"))
		must(i, os.WriteFile(in("a"), []byte("a"), 0o644))
		must(i, is("a", "a"))
		must(i, names("a"))
		must(i, os.WriteFile(in("b"), []byte("other"), 0o600))
		must(i, os.Rename(in("b"), in("a")))
		must(i, is("a", "other"))
		must(i, gone("b"))
		must(i, os.Chmod(in("a"), 0o640))
		fi, err := os.Stat(at("a"))
		must(i, err)
		if fi.Mode() != 0o640 {
			t.Fatalf("round %d: mode %v", i, fi.Mode())
		}
		must(i, os.Symlink("a", in("l")))
		must(i, is("l", "other"))
		must(i, os.Remove(in("l")))
		must(i, os.WriteFile(in("c"), []byte("c"), 0o644))
		must(i, os.Symlink("c", in("l")))
		must(i, is("l", "c"))
		must(i, os.Mkdir(in("sub"), 0o755))
		must(i, os.WriteFile(in("sub/x"), []byte("x"), 0o644))
		must(i, is("sub/x", "x"))
		must(i, os.Rename(in("sub"), in("bus")))
		must(i, gone("sub/x"))
		must(i, is("bus/x", "x"))
		must(i, names("a", "bus", "c", "l"))
		must(i, os.RemoveAll(in("bus")))
		for _, name := range []string{"a", "c", "l"} {
			must(i, os.Remove(in(name)))
		}
		must(i, names())
	}
}

// raced has the guest append as fast as it can, and the host never see less
// than what was there before it looked.
func raced(t *testing.T, s *served, rounds int) {
	f := s.sides("raced", "")
	g, err := os.OpenFile(f.guest, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var written atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				n, _ := g.Write([]byte("x"))
				written.Add(int64(n))
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for i := range rounds {
		least := written.Load()
		fi, err := os.Stat(f.host)
		if err != nil || fi.Size() < least {
			t.Fatalf("round %d: stat: %v, %v, want %d at least", i, fi, err, least)
		}
		least = written.Load()
		if end, err := f.held.Seek(0, io.SeekEnd); err != nil || end < least {
			t.Fatalf("round %d: seek: %d, %v, want %d at least", i, end, err, least)
		}
	}
}
