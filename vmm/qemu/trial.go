//go:build linux

package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hutch/fs"
	"hutch/vmm/process"
)

// A trial is a machine that is started to see whether that works.
type trial struct {
	command
	dir     string
	program string
	p       *process.Process
}

// trial returns a machine with an accelerator, in a folder of its own.
func (d *Driver) trial(accel string) (*trial, error) {
	program, err := d.usable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(d.cfg.Dir, "probe-")
	if err != nil {
		return nil, err
	}
	t := &trial{dir: dir, program: program}
	if err := t.begin(dir, t.serialLog(), shape{Machine: "pc", Accel: accel, RAM: 256 << 20, CPUs: 1}); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *trial) serialLog() string { return filepath.Join(t.dir, "serial") }
func (t *trial) log() string       { return filepath.Join(t.dir, "log") }

func (t *trial) run() (err error) {
	t.p, err = t.start(t.program, t.dir, t.log(), owner(t.dir))
	return err
}

// root says whose root QEMU has: its own, or the host's and why. What says so
// begins before QEMU does, which is to do nothing.
func (t *trial) root(ctx context.Context) (string, error) {
	t.add("-version")
	if err := t.run(); err != nil {
		return "", err
	}
	select {
	case <-t.p.Gone():
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	said, err := os.ReadFile(t.log())
	for line := range strings.Lines(string(said)) {
		for _, what := range []string{noOwnRoot, noOwnSpace} {
			if why, ok := strings.CutPrefix(line, what); ok {
				return fmt.Sprintf("host (%s)", strings.TrimSpace(why)), nil
			}
		}
	}
	return "own", err
}

// failure says why it did not do what it was to do.
func (t *trial) failure() error {
	if said := lastLine(t.log(), 0); said != "" {
		return fmt.Errorf("%w: %s", fs.ErrUnsupported, strings.TrimPrefix(said, programName+": "))
	}
	return fmt.Errorf("%w: a kernel does not boot: %q", fs.ErrUnsupported, lastLine(t.serialLog(), 0))
}

// close ends the machine and removes its folder.
func (t *trial) close() {
	t.command.close()
	if t.p != nil {
		t.p.End()
	}
	os.RemoveAll(t.dir)
}
