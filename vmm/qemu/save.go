//go:build linux

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hutch/fs"
	"hutch/vmm"
)

// What Save writes into its folder.
const (
	savedShape  = "machine.json"
	savedMemory = "memory"
	savedImage  = "image" // a link: memory knows what is on the disk
)

// controlLimit is how long QEMU may take to obey. It is not the caller's to
// shorten: of a command that was given up nobody knows what it did.
const controlLimit = 5 * time.Minute

func control() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), controlLimit,
		fmt.Errorf("%w: the machine does not obey in %s", fs.ErrTimedOut, controlLimit))
}

// status returns what QEMU calls the state that it is in.
func (m *machine) status(ctx context.Context) (string, error) {
	var s struct{ Status string }
	err := m.qmp.Do(ctx, "query-status", nil, &s)
	return s.Status, err
}

// stopped says whether the guest's processors stand still in a state.
func stopped(status string) bool { return status == "paused" || status == statusSaved }

// What a machine is in at the end of a Save, and after it.
const (
	statusSaving = "finish-migrate"
	statusSaved  = "postmigrate"
)

// Pause stops the guest's processors, then what serves its files.
func (m *machine) Pause(context.Context) error {
	ctx, cancel := control()
	defer cancel()
	if err := m.qmp.Do(ctx, "stop", nil, nil); err != nil {
		return err
	}
	m.share.Pause()
	return nil
}

// Resume lets the guest's processors go on.
func (m *machine) Resume(context.Context) error {
	ctx, cancel := control()
	defer cancel()
	if err := m.qmp.Do(ctx, "cont", nil, nil); err != nil {
		return err
	}
	m.share.Resume()
	return nil
}

// Save writes the memory and the devices as QEMU would send them to another
// host.
func (m *machine) Save(_ context.Context, dir string) error {
	ctx, cancel := control()
	defer cancel()
	if err := m.again(ctx); err != nil {
		return err
	}
	sh, err := m.shape(ctx)
	if err != nil {
		return err
	}
	if err := fs.WriteJSON(filepath.Join(dir, savedShape), sh, false); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(m.spec.Dir, imageLink), filepath.Join(dir, savedImage)); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, savedMemory), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return m.send(ctx, f)
}

// again makes a machine that was saved ready to be saved once more. QEMU wants
// such a one to run first: it does for as long as two commands take.
func (m *machine) again(ctx context.Context) error {
	status, err := m.status(ctx)
	if err != nil || status != statusSaved {
		return err
	}
	return errors.Join(m.qmp.Do(ctx, "cont", nil, nil), m.qmp.Do(ctx, "stop", nil, nil))
}

// shape returns the machine's, with the name that later QEMUs know it by.
func (m *machine) shape(ctx context.Context) (shape, error) {
	sh := m.found.Shape
	var name string
	err := m.qmp.Do(ctx, "qom-get", map[string]string{"path": "/machine", "property": "type"}, &name)
	sh.Machine = strings.TrimSuffix(name, "-machine")
	return sh, err
}

// send has QEMU write what it is to the file f. It says that it has completed
// before it has put away what it saved with, and refuses to go on till then.
func (m *machine) send(ctx context.Context, f *os.File) error {
	err := m.qmp.Do(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(64) << 30}, nil)
	if err != nil {
		return err
	}
	if err := m.transfer(ctx, "migrate", f); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		status, err := m.status(ctx)
		return status != statusSaving, err
	})
}

// transfer has QEMU do a command that reads or writes the file f, to its end.
func (m *machine) transfer(ctx context.Context, name string, f *os.File) error {
	if err := m.qmp.Give(ctx, "saved", f); err != nil {
		return err
	}
	if err := m.qmp.Do(ctx, name, map[string]string{"uri": "fd:saved"}, nil); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		var s struct {
			Status string
			Desc   string `json:"error-desc"`
		}
		err := m.qmp.Do(ctx, "query-migrate", nil, &s)
		if s.Status == "failed" || s.Status == "cancelled" {
			err = fmt.Errorf("%w: memory: %s", fs.ErrIO, s.Desc)
		}
		return s.Status == "completed", err
	})
}

// poll asks until it is done, or fails.
func poll(ctx context.Context, ask func() (done bool, err error)) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Restore starts a machine that goes on where the saved one was.
func (d *Driver) Restore(ctx context.Context, s vmm.Spec, dir string) (vmm.Machine, error) {
	var sh shape
	if err := fs.ReadJSON(filepath.Join(dir, savedShape), &sh); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, savedMemory))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := os.Link(filepath.Join(dir, savedImage), filepath.Join(s.Dir, imageLink)); err != nil {
		return nil, err
	}
	var w *wire
	if sh.Ports != 0 { // it has the device, and cannot do without
		if w, err = d.exchange.plug(sh.Ports, sh.CID); err != nil {
			return nil, fmt.Errorf("%w: machine was saved with vhost-vsock: %w", fs.ErrUnsupported, err)
		}
	}
	m, err := d.begin(ctx, s, sh, w, nil)
	if err != nil {
		return nil, err
	}
	err = m.transfer(ctx, "migrate-incoming", f)
	if err == nil {
		err = m.qmp.Do(ctx, "cont", nil, nil)
	}
	if err != nil {
		m.Kill(context.WithoutCancel(ctx))
		return nil, startError(ctx, err, s.Log, 0)
	}
	return m, nil
}
