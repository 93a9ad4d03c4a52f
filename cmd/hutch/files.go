package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	manyFiles = 20000 // small ones, in so many folders
	manyDirs  = 100
)

// files measures tools of the host on many small files in a workspace, each
// beside the same on a folder of the host, which is its yardstick.
func (b *bencher) files() error {
	if b.mount == "none" {
		return nil
	}
	beside, err := os.MkdirTemp("", "hutch-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(beside)
	if err := makeMany(beside); err != nil {
		return err
	}
	if err := b.wakes(); err != nil {
		return err
	}
	return b.with(benchVM, func() error {
		work := filepath.Join(b.mount, "vm", benchVM, "work")
		if err := tool(exec.Command("cp", "-a", beside+"/.", work)); err != nil {
			return err
		}
		for _, t := range []struct {
			what string
			line []string
		}{
			{"tar of 20,000 files", []string{"tar", "cf", "-", "."}},
			{"grep -r in 20,000 files", []string{"grep", "-r", "nowhere to be found", "."}},
			{"git status of 20,000 files", []string{"git", "status", "--short"}},
			{"find -ls of 20,000 files", []string{"find", ".", "-ls"}},
		} {
			if _, err := exec.LookPath(t.line[0]); err != nil {
				continue
			}
			if err := b.compare(t.what, t.line, beside, work); err != nil {
				return err
			}
		}
		return b.listing(filepath.Join(b.mount, "vm", benchVM, "root", "usr", "bin"))
	})
}

// wakes measures what the machine takes to wake another process and be woken by
// it: no request to a file server, and so no open of a file, costs less.
func (b *bencher) wakes() error {
	cat := exec.CommandContext(b.ctx, "cat")
	in, err := cat.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cat.Start(); err != nil {
		return err
	}
	defer cat.Wait()
	defer in.Close()
	in.(*os.File).Fd() // has it block, without the runtime in between
	out.(*os.File).Fd()
	one := []byte{'.'}
	return b.times("a byte to cat and back", "", 20000, func() error {
		if _, err := in.Write(one); err != nil {
			return err
		}
		_, err := out.Read(one)
		return err
	})
}

// makeMany makes the files in dir, and a repository of them if there is git.
func makeMany(dir string) error {
	for i := range manyFiles {
		in := filepath.Join(dir, fmt.Sprint("d", i%manyDirs))
		if err := os.MkdirAll(in, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprint("f", i)), fmt.Appendf(nil, "%0200d\n", i), 0o644); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		if err := tool(exec.Command("git", append([]string{"-C", dir}, args...)...)); err != nil {
			return err
		}
	}
	return nil
}

// tool runs a tool of the host for its effect. Tar does nothing for /dev/null,
// so the output goes to a pipe.
func tool(c *exec.Cmd) error {
	c.Stdout = struct{ io.Writer }{io.Discard}
	err := c.Run()
	if bad := (*exec.ExitError)(nil); errors.As(err, &bad) && c.Args[0] == "grep" && bad.ExitCode() == 1 {
		return nil // grep found nothing
	}
	if err != nil {
		return fmt.Errorf("%v: %w", c.Args, err)
	}
	return nil
}

// compare adds the figures of a tool in the folder beside and in the workspace,
// used in turn, and what the one is of the other.
func (b *bencher) compare(what string, line []string, beside, work string) error {
	dirs := [2]string{beside, work}
	var took [2][]time.Duration
	for round, began := 0, time.Now(); round <= some && (round < 2 || time.Since(began) < enough/2); round++ {
		for i, dir := range dirs {
			c := exec.CommandContext(b.ctx, line[0], line[1:]...)
			c.Dir = dir
			began := time.Now()
			if err := tool(c); err != nil {
				return err
			}
			if round > 0 { // the first fills caches, and git's index
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	b.add(what+", host folder", "", took[0], sum(took[0]))
	b.add(what+", workspace", "≤ 4 × host folder", took[1], sum(took[1]))
	last := len(b.figures) - 1
	b.figures[last].Rate, b.figures[last].Unit = b.figures[last].P50/b.figures[last-1].P50, "× host folder"
	return nil
}

// listing measures ls -l of a folder of the guest, which is not remembered by
// then.
func (b *bencher) listing(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	forgotten := func() error { time.Sleep(time.Second); return nil }
	ls := func() error { return tool(exec.CommandContext(b.ctx, "ls", "-l", dir)) }
	if err := b.repeat(fmt.Sprintf("ls -l of %d files of root/", len(list)), "≥ 10,000 entries/s", 2*some, forgotten, ls); err != nil {
		return err
	}
	last := len(b.figures) - 1
	b.figures[last].Rate, b.figures[last].Unit = b.figures[last].Rate*float64(len(list)), "entries/s"
	return nil
}
