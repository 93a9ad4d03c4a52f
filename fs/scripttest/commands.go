package scripttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A command is a row of the table of commands.
type command struct {
	words int // that it takes
	do    func(s *script, w []string) error
}

func commands() map[string]command {
	return map[string]command{
		"mkdir":   {1, func(s *script, w []string) error { return s.f.mkdir(w[0]) }},
		"rmdir":   {1, func(s *script, w []string) error { return s.f.remove(w[0], true) }},
		"rm":      {1, func(s *script, w []string) error { return s.f.remove(w[0], false) }},
		"mv":      {2, func(s *script, w []string) error { return s.f.rename(w[0], w[1]) }},
		"write":   {2, func(s *script, w []string) error { return s.write(w, os.O_WRONLY|os.O_TRUNC) }},
		"append":  {2, func(s *script, w []string) error { return s.write(w, os.O_WRONLY|os.O_APPEND) }},
		"pieces":  {2, (*script).pieces},
		"create":  {2, func(s *script, w []string) error { return s.write(w, os.O_WRONLY|os.O_TRUNC|os.O_CREATE) }},
		"read":    {1, (*script).read},
		"ls":      {1, (*script).ls},
		"stat":    {1, (*script).stat},
		"open":    {3, (*script).openFile},
		"fread":   {1, (*script).fread},
		"fwrite":  {2, (*script).fwrite},
		"fsync":   {1, func(s *script, w []string) error { return s.open[w[0]].Sync(background) }},
		"fclose":  {1, (*script).fclose},
		"pour":    {2, func(s *script, w []string) error { return s.pour(w[0], w[1], math.MaxInt64) }},
		"cut":     {3, (*script).cut},
		"bg":      {2, (*script).background},
		"join":    {1, (*script).join},
		"cancel":  {1, (*script).cancel},
		"head":    {2, (*script).head},
		"want":    {1, (*script).want},
		"match":   {1, func(s *script, w []string) error { return s.match(w[0], true) }},
		"nomatch": {1, func(s *script, w []string) error { return s.match(w[0], false) }},
		"err":     {1, (*script).wantErr},
	}
}

func (s *script) do(words []string) error {
	c, ok := commands()[words[0]]
	if !ok || len(words)-1 != c.words {
		s.t.Fatalf("%s: no such command with %d words", s.at, len(words)-1)
	}
	return c.do(s, words[1:])
}

func (s *script) write(w []string, flags int) error {
	f, err := s.f.open(w[0], flags)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(background, []byte(w[1]), 0)
	return errors.Join(err, f.Close())
}

func (s *script) pieces(w []string) error {
	f, err := s.f.open(w[0], os.O_WRONLY)
	if err != nil {
		return err
	}
	for i := range len(w[1]) {
		if _, err = f.WriteAt(background, []byte{w[1][i]}, int64(i)); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// readTo reads f from off until its end, or until enough says so.
func readTo(ctx context.Context, f file, off int64, enough func(text string) bool) (string, error) {
	var b strings.Builder
	p := make([]byte, 8192)
	for {
		n, err := f.ReadAt(ctx, p, off+int64(b.Len()))
		b.Write(p[:n])
		if n == 0 || err != nil || enough(b.String()) {
			return b.String(), err
		}
	}
}

func never(string) bool { return false }

// limit is how long a read may block before a script is given up.
const limit = 2 * time.Minute

func (s *script) read(w []string) error { return s.readUntil(w[0], never) }

func (s *script) readUntil(name string, enough func(string) bool) error {
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	f, err := s.f.open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	s.got, err = readTo(ctx, f, 0, enough)
	return errors.Join(err, f.Close())
}

func (s *script) head(w []string) error {
	var n int
	fmt.Sscan(w[1], &n)
	return s.readUntil(w[0], func(text string) bool { return strings.Count(text, "\n") >= n })
}

func (s *script) ls(w []string) error {
	names, err := s.f.list(w[0])
	slices.Sort(names)
	s.got = strings.Join(names, " ")
	return err
}

func (s *script) stat(w []string) error {
	dir, size, err := s.f.stat(w[0])
	s.got = fmt.Sprintf("file %d", size)
	if dir {
		s.got = "dir"
	}
	return err
}

var modes = map[string]int{
	"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "rn": os.O_RDONLY | syscall.O_NONBLOCK,
}

func (s *script) openFile(w []string) error {
	f, err := s.f.open(w[1], modes[w[2]])
	if err == nil {
		s.open[w[0]] = &openFile{file: f}
	}
	return err
}

func (s *script) fread(w []string) error {
	f := s.open[w[0]]
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	p := make([]byte, 64<<10)
	n, err := f.ReadAt(ctx, p, f.off)
	s.got = string(p[:n])
	f.off += int64(n)
	if s.said[w[0]] == "" {
		s.said[w[0]] = strings.TrimSpace(s.got)
	}
	return err
}

func (s *script) fwrite(w []string) error {
	f := s.open[w[0]]
	_, err := f.WriteAt(background, []byte(w[1]), f.off)
	if err == nil {
		f.off += int64(len(w[1]))
	}
	return err
}

// pour writes most bytes of what is left of the file kept open as h to name.
func (s *script) pour(h, name string, most int64) error {
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	from := s.open[h]
	to, err := s.f.open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	p := make([]byte, 8192)
	for at := int64(0); at < most && err == nil; {
		n, rerr := from.ReadAt(ctx, p[:min(int64(len(p)), most-at)], from.off)
		if err = rerr; n == 0 || err != nil {
			break
		}
		from.off += int64(n)
		_, err = to.WriteAt(ctx, p[:n], at)
		at += int64(n)
	}
	return errors.Join(err, to.Close())
}

func (s *script) cut(w []string) error {
	var n int64
	fmt.Sscan(w[2], &n)
	return s.pour(w[0], w[1], n)
}

func (s *script) fclose(w []string) error {
	f := s.open[w[0]]
	delete(s.open, w[0])
	return f.Close()
}

func (s *script) background(w []string) error {
	f, err := s.f.open(w[1], os.O_RDONLY)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(background)
	j := &job{cancel: cancel, done: make(chan struct{})}
	s.jobs[w[0]] = j
	go func() {
		defer close(j.done)
		j.text, j.err = readTo(ctx, f, 0, never)
		f.Close()
	}()
	return nil
}

func (s *script) join(w []string) error {
	j := s.jobs[w[0]]
	select {
	case <-j.done:
	case <-time.After(limit):
		j.cancel()
		<-j.done
		return fmt.Errorf("not at its end after %v, got %q", limit, j.text)
	}
	s.got = j.text
	return j.err
}

func (s *script) cancel(w []string) error {
	j := s.jobs[w[0]]
	j.cancel()
	select {
	case <-j.done:
		s.got = j.text
		return nil
	case <-time.After(limit):
		return errors.New("still blocked after its interrupt")
	}
}
