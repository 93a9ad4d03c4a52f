package vmm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hutch/fs"
	"hutch/vmm/image/layer"
	"hutch/vmm/pack"
)

// How a VM is unpacked:
//
//  1. what the manifest needs is looked for, and the files of the archive are
//     made in a folder without a name
//  2. the archive was whole, and ends; what it brought is a VM's
//  3. the folder is on the disk and is renamed to unpacking, which decides that
//     it happens
//  4. each part of it changes places with that of the VM, which is stopped then,
//     or suspended
//  5. the folder goes
//
// What fails or is interrupted before 3 leaves the VM as it was made. After it the
// VM is what the archive says: what is left of 4 and 5 is done when it is started,
// or by the next hutchd.

const unpacking = "unpacking"

// unpackedParts are what step 4 moves. The state comes last: it says what the
// rest is.
var unpackedParts = []string{"env", "work", "layer", pinsFolder, "log", "snap", "session.db", savedName, "config", "state"}

// maxUnpackFiles is how many files an archive may bring.
const maxUnpackFiles = 8 << 20

// An unpack is an archive that is being unpacked.
type unpack struct {
	v     *VM
	want  pack.Options
	hooks PackHooks
	dir   string
	m     pack.Manifest

	text   string // of the config
	config Config
	state  State
	reason string
}

// Unpack makes the VM, which was made and never started, what the archive says
// that r has; want says what of it is left out. It calls whole when the archive
// has come to its end, and then needs the end of r, too, before anything is
// changed.
func (v *VM) Unpack(ctx context.Context, r io.ReadCloser, want pack.Options, hooks PackHooks, whole func()) error {
	ctx, done, err := v.errand(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer context.AfterFunc(ctx, func() { r.Close() })()
	if err := v.Fresh(); err != nil {
		return err
	}
	over, err := v.unpackTurn()
	if err != nil {
		return err
	}
	defer over()
	u := &unpack{v: v, want: want, hooks: hooks.withDefaults(), state: Stopped}
	if u.dir, err = os.MkdirTemp(v.dir, ".new-"); err != nil {
		return err
	}
	defer removeAll(u.dir)
	err = u.do(ctx, r, whole)
	switch {
	case err == nil:
		v.event(EventUnpacked, u.reason)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("vm %q is not unpacked: %w", v.Name(), err)
}

// unpackTurn takes a turn to unpack an archive into the VM, or fails with ErrBusy.
// over gives it back.
func (v *VM) unpackTurn() (over func(), err error) {
	select {
	case v.unpacks <- struct{}{}:
	default:
		return nil, fmt.Errorf("%w: an archive is being unpacked into vm %q already", fs.ErrBusy, v.Name())
	}
	ended, err := v.t.archive()
	if err != nil {
		<-v.unpacks
		return nil, err
	}
	return func() { ended(); <-v.unpacks }, nil
}

// do does all steps.
func (u *unpack) do(ctx context.Context, r io.Reader, whole func()) error {
	if err := u.read(ctx, r, whole); err != nil {
		return err
	}
	if err := u.finish(ctx); err != nil {
		return err
	}
	return u.v.turn(ctx, u.install)
}

// Fresh says why the VM cannot be what an archive says.
func (v *VM) Fresh() error {
	if s := v.State(); s != Created {
		return fmt.Errorf("%w: vm %q is %s: an archive is unpacked into a VM that was just made", fs.ErrBusy, v.Name(), s)
	}
	return nil
}

// read does step 1, and sees that the archive was whole.
func (u *unpack) read(ctx context.Context, r io.Reader, whole func()) error {
	a, m, err := pack.NewReader(r)
	if err != nil {
		return err
	}
	defer a.Close()
	u.m = m
	if err := u.fits(); err != nil {
		return a.Blame(err)
	}
	x := pack.Extraction{
		Dir: u.dir, Limits: pack.Limits{Files: maxUnpackFiles, Disk: u.v.t.effective(u.config).Disk, Room: leaving(u.dir)}, Skip: u.skip,
		Ledger: func(name string, r io.Reader) error { return u.hooks.Table(ctx, u.dir, name, r) },
	}
	err = x.Extract(ctx, a)
	if terr := u.hooks.TablesDone(u.dir); err == nil {
		err = terr
	}
	if err != nil {
		return err
	}
	whole()
	return a.Drain()
}

func (u *unpack) skip(part string) bool {
	switch part {
	case "ledger":
		return !u.want.Ledger
	case "log":
		return !u.want.Logs
	case "snap":
		return !u.want.Snapshots
	case savedName:
		return u.state != Suspended
	}
	return false
}

// finish does step 2, and what there is of 3 before the rename.
func (u *unpack) finish(ctx context.Context) error {
	if err := errors.Join(u.checkSnapshots(), u.checkEnv()); err != nil {
		return err
	}
	if u.state == Suspended {
		if err := u.receive(ctx); err != nil {
			if err := u.forget(err); err != nil {
				return err
			}
		}
	}
	for _, name := range forkedParts {
		if err := os.MkdirAll(filepath.Join(u.dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(u.dir, "config"), []byte(u.text), 0o600); err != nil {
		return err
	}
	return layer.Settle(u.dir)
}

// receive has the driver look at the memory. What the machine was started with
// is what the config says that was taken.
func (u *unpack) receive(ctx context.Context) error {
	v, saved := u.v, filepath.Join(u.dir, savedName)
	c := v.t.effective(u.config).Config
	if err := os.MkdirAll(saved, 0o700); err != nil {
		return err
	}
	os.Remove(filepath.Join(saved, savedConfig))
	if err := os.WriteFile(filepath.Join(saved, savedConfig), []byte(c.Text()), 0o600); err != nil {
		return err
	}
	p, err := v.plan(c)
	if err != nil {
		return err
	}
	return p.driver.(Mover).Receive(ctx, p.spec, filepath.Join(saved, savedMachine), u.m.Memory.Needs)
}

// install does steps 3 to 5. It is done by the owner.
func (u *unpack) install() error {
	v := u.v
	if err := v.Fresh(); err != nil {
		return err
	}
	u.explain()
	now := v.look().stored
	s := stored{Name: now.Name, State: u.state, Reason: u.reason, Since: time.Now(), Made: now.Made, Anonymous: now.Anonymous, Driver: u.m.Driver, Unconfirmed: reaches(u.config)}
	if u.state == Suspended {
		s.Saved = treeSize(filepath.Join(u.dir, savedName))
	}
	if err := s.save(u.dir, true); err != nil {
		return err
	}
	return u.hooks.Replace(func() error {
		if err := os.Rename(u.dir, v.path(unpacking)); err != nil {
			return err
		}
		err := v.finishUnpack()
		v.change(func(now *seen) {
			now.stored, now.config, now.text, now.bad, now.err = s, u.config, u.text, "", err
		})
		return err
	})
}

// explain has the reason say what is to be known of the VM before it runs: what it
// lacks, and what of this machine it would be given.
func (u *unpack) explain() {
	list := []string{"unpacked from " + plainText(u.m.Name)}
	if u.reason != "" {
		list[0] += ": " + u.reason
	}
	if len(u.m.Secrets) > 0 {
		list = append(list, "env lacks "+plainText(strings.Join(u.m.Secrets, " "))+", as secrets are not packed")
	}
	for _, key := range reaches(u.config) {
		list = append(list, "its config has "+key+" "+plainText(u.config.Value(key)))
	}
	if p := u.config.Profile; p != "" && errors.Is(u.v.t.profile(u.config).Err, fs.ErrNotExist) {
		text := fmt.Sprintf("lacks profile %s: make profiles/%s.toml", p, p)
		if u.state != Suspended { // whose config is what it was started with
			text += fmt.Sprintf(" or `config %s profile ''`", u.v.Name())
		}
		list = append(list, text)
	}
	u.reason = strings.Join(list, "; ")
}

// finishUnpack does steps 4 and 5 where 3 has been done.
func (v *VM) finishUnpack() error {
	if _, err := os.Lstat(v.path(unpacking)); err == nil {
		os.Remove(v.path("config.bad"))
	}
	return v.moveIn(unpacking, unpackedParts, "unpacked whole, start it")
}

// plainText returns a text of an archive as it can stand in a line for people.
func plainText(s string) string { return fs.PlainLine(s[:min(len(s), 500)]) }
