//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// How long a sandbox may take to obey, and to be saved. Its guest can keep it
// from that, as by all the descriptors that it may have.
const (
	obeyLimit = time.Minute
	saveLimit = 10 * time.Minute
)

// control has runsc do what args say with the machine. When ctx ends runsc is
// given a moment: of one that was killed nobody knows what it did.
func (m *machine) control(ctx context.Context, limit time.Duration, args ...string) error {
	hurried := ctx
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit,
		fmt.Errorf("%w: sandbox does not obey %s in %s", fs.ErrTimedOut, args[0], limit))
	defer cancel()
	defer context.AfterFunc(hurried, func() {
		select {
		case <-time.After(controlOver):
			cancel()
		case <-ctx.Done():
		}
	})()
	n, err := readNotes(m.spec.Dir) // the VM may have another name now
	if err != nil {
		return err
	}
	lock, err := lockControl(ctx, m.spec.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := m.own(); err != nil {
		return err
	}
	a, err := readAbout(m.programs())
	if err != nil {
		return err
	}
	args = slices.Concat([]string{"runsc"}, where(m.spec.Dir, platforms[0]), a.Flags, []string{"--log=" + m.spec.Log}, args, []string{n.ID})
	return execute(ctx, m.spec.Log, lock, filepath.Join(m.programs(), runscName), args...)
}

// controlName is the file in a machine's folder that a runsc of control's has
// locked for as long as it runs, which may be after hutchd was killed.
const controlName = "control"

// lockControl returns the file, locked, when no such runsc runs any more.
func lockControl(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, controlName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(2 * time.Millisecond) // a lock that is given up is no event
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// controlOver is how long a runsc of an earlier process may take to end: what
// it is about to do would come after what we do. Only that which writes a large
// memory takes longer, for nobody; the sandbox is paused then, and runsc has
// noted it.
const controlOver = 2 * time.Second

// awaitControl waits for the end of a runsc of an earlier process.
func awaitControl(ctx context.Context, dir string) {
	if _, err := os.Stat(filepath.Join(dir, controlName)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, controlOver)
	defer cancel()
	if f, err := lockControl(ctx, dir); err == nil {
		f.Close()
		return
	}
	f := family(dir)
	f.Names = []string{enterName, "runsc"}
	f.Sweep()
}

// statusPaused is what runsc calls a paused sandbox in its notes.
const statusPaused = "paused"

// Pause stops the guest's threads.
func (m *machine) Pause(ctx context.Context) error { return m.pause(ctx, true) }

// Resume lets the guest's threads run.
func (m *machine) Resume(ctx context.Context) error { return m.pause(ctx, false) }

func (m *machine) pause(ctx context.Context, want bool) error {
	n, err := readNotes(m.spec.Dir)
	if err != nil || (n.Status == statusPaused) == want {
		return err
	}
	if want {
		return m.control(ctx, obeyLimit, "pause")
	}
	return m.control(ctx, obeyLimit, "resume")
}

// Save makes a checkpoint, and keeps the machine's programs with it. The
// sandbox keeps the pause to itself: what is restored runs.
func (m *machine) Save(ctx context.Context, dir string) error {
	if err := m.control(ctx, saveLimit, "checkpoint", "-leave-running", "-image-path", dir); err != nil {
		return err
	}
	return share(m.programs(), filepath.Join(dir, programs))
}
