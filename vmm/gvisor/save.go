//go:build linux

package gvisor

import (
	"context"
	"fmt"
	"time"

	"hutch/fs/node"
)

// controlLimit is how long a sandbox may take to obey. It is not the caller's
// to shorten: of a runsc that was killed nobody knows what it did.
const controlLimit = 10 * time.Minute

// control has runsc do what args say with the machine.
func (m *machine) control(args ...string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), controlLimit,
		fmt.Errorf("%w: sandbox does not obey %s in %s", node.ErrTimedOut, args[0], controlLimit))
	defer cancel()
	n, err := readNotes(m.spec.Dir) // the VM may have another name now
	if err != nil {
		return err
	}
	flags := append(m.d.flags(m.spec.Dir, platforms[0]), "--log="+m.spec.Log)
	args = append(append([]string{"runsc"}, flags...), append(args, n.ID)...)
	return execute(ctx, m.spec.Log, m.d.cfg.Runsc, args...)
}

// statusPaused is what runsc calls a paused sandbox in its notes.
const statusPaused = "paused"

// Pause stops the guest's threads.
func (m *machine) Pause(ctx context.Context) error { return m.pause(true) }

// Resume lets the guest's threads run.
func (m *machine) Resume(ctx context.Context) error { return m.pause(false) }

func (m *machine) pause(want bool) error {
	n, err := readNotes(m.spec.Dir)
	if err != nil || (n.Status == statusPaused) == want {
		return err
	}
	if want {
		return m.control("pause")
	}
	return m.control("resume")
}

// Save makes a checkpoint. The sandbox keeps the pause to itself: what is
// restored runs.
func (m *machine) Save(ctx context.Context, dir string) error {
	return m.control("checkpoint", "-leave-running", "-image-path", dir)
}
