package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/image/layer"
	"hutch/vmm/pack"
	"hutch/vmm/process"
	"hutch/vmm/snapshot"
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
var unpackedParts = []string{"env", "work", "layer", "log", "snap", "session.db", savedName, "config", "state"}

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
	select {
	case v.unpacks <- struct{}{}:
		defer func() { <-v.unpacks }()
	default:
		return fmt.Errorf("%w: an archive is being unpacked into vm %q already", fs.ErrBusy, v.Name())
	}
	over, err := v.t.archive()
	if err != nil {
		return err
	}
	defer over()
	u := &unpack{v: v, want: want, hooks: hooks.withDefaults(), state: Stopped}
	if u.dir, err = os.MkdirTemp(v.dir, ".new-"); err != nil {
		return err
	}
	defer removeAll(u.dir)
	err = u.read(ctx, r, whole)
	if err == nil {
		err = u.finish(ctx)
	}
	if err == nil {
		err = v.turn(ctx, u.install)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("vm %q is not unpacked: %w", v.Name(), err)
	}
	v.event(EventUnpacked, u.reason)
	return nil
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

// fits looks whether this machine has what the archive needs.
func (u *unpack) fits() error {
	if err := u.configure(); err != nil {
		return err
	}
	if err := u.findImage(); err != nil {
		return err
	}
	sum := int64(0)
	for _, s := range u.m.Sizes {
		sum += max(0, s.Bytes)
	}
	if have := leaving(u.dir)(); sum > have {
		return fmt.Errorf("%w: archive has %s, and there is room for %s", fs.ErrNoSpace, mib(sum), mib(have))
	}
	return u.remember()
}

// configure takes the config of the archive, as SetConfig would. Image and driver
// are in it in any case; what holds without being said is not said.
func (u *unpack) configure() error {
	u.text = u.m.Config
	for _, key := range []string{"image", "driver"} {
		want, err := profiles.ParseConfig(u.text)
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		without, err := profiles.ParseConfig(edit(u.text, key, ""))
		if err == nil && u.v.t.effective(without).Value(key) == want.Value(key) {
			u.text = edit(u.text, key, "")
		}
	}
	c, err := u.v.t.parse(u.text)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	u.config = c
	return nil
}

// findImage looks whether the VM's image is here, under whatever name.
func (u *unpack) findImage() error {
	want, images := u.m.Image, u.v.t.images
	if want.Arch != "" && want.Arch != runtime.GOARCH {
		return fmt.Errorf("%w: archive is for %.32s, and this machine is %s", fs.ErrUnsupported, want.Arch, runtime.GOARCH)
	}
	if want.Kind == "" {
		return fmt.Errorf("%w: archive does not say which image it needs: where it was packed there was none called %.100q", fs.ErrNotExist, want.Name)
	}
	name := u.v.t.effective(u.config).Image
	img, err := images.Lookup(name)
	if err == nil && img.Digest() == want.Digest && (want.Digest != "" || img.Kind == want.Kind) {
		return nil
	}
	if list, lerr := images.List(); lerr == nil && want.Digest != "" {
		for _, other := range list {
			if i, err := images.Lookup(other); err == nil && i.Digest() == want.Digest {
				u.text = edit(u.text, "image", other)
				u.config, err = u.v.t.parse(u.text)
				return err
			}
		}
	}
	if err == nil {
		return fmt.Errorf("%w: image %q is another here: it has digest %s, and the archive needs %s%s", fs.ErrNotExist, name, cmp.Or(img.Digest(), "none"), imageText(want), pullText(want))
	}
	return fmt.Errorf("%w: image %q is not here, and the archive needs %s%s", fs.ErrNotExist, name, imageText(want), pullText(want))
}

func imageText(i pack.Image) string {
	return fmt.Sprintf("%.100q", cmp.Or(i.Digest, "a "+i.Kind+" of that name"))
}

func pullText(i pack.Image) string {
	if i.Source == "" {
		return ""
	}
	return fmt.Sprintf(": get %.200q first", i.Source)
}

// remember decides whether the memory of a suspended VM is taken.
func (u *unpack) remember() error {
	without := cmp.Or(plainText(u.m.Without), "the archive has none")
	switch {
	case u.m.Memory == nil && u.want.Memory == pack.Yes:
		return fmt.Errorf("%w: its memory: %s", fs.ErrUnsupported, without)
	case u.m.Memory != nil && u.want.Memory == pack.No:
		u.reason = withoutMemory
	case u.m.Memory != nil:
		if err := u.goesOn(); err != nil {
			return u.forget(err)
		}
		u.state = Suspended
	case u.m.State == string(Suspended):
		u.reason = withoutMemory + ": " + without
	}
	return nil
}

const withoutMemory = "without its memory"

// goesOn says why the memory cannot go on on this machine, before it is seen.
func (u *unpack) goesOn() error {
	d, err := u.v.t.driver(u.m.Driver)
	if err != nil {
		return err
	}
	if _, ok := d.(Mover); !ok || u.v.t.effective(u.config).Driver != u.m.Driver {
		return fmt.Errorf("%w: driver %s cannot have it go on here", fs.ErrUnsupported, d.Name())
	}
	have := process.Features()
	for _, f := range u.m.Memory.Features {
		if !slices.Contains(have, f) {
			return fmt.Errorf("%w: it was on a processor with %.32q, which this one has not", fs.ErrUnsupported, f)
		}
	}
	return nil
}

// forget has the VM start anew, as its memory cannot go on here for the reason
// err, unless that was asked for by name.
func (u *unpack) forget(err error) error {
	if u.want.Memory == pack.Yes {
		return fmt.Errorf("its memory: %w", err)
	}
	u.state, u.reason = Stopped, withoutMemory+": "+plainText(fs.Text(err))
	return removeAll(filepath.Join(u.dir, savedName))
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
	for _, name := range []string{"env", "work", "layer"} {
		if err := os.MkdirAll(filepath.Join(u.dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(u.dir, "config"), []byte(u.text), 0o600); err != nil {
		return err
	}
	return layer.Settle(u.dir)
}

// checkEnv sees to it that what comes as a variable can be one. What has not the
// name of a variable, or that of hutch's own, means nothing and is left out.
func (u *unpack) checkEnv() error {
	entries, err := os.ReadDir(filepath.Join(u.dir, "env"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var all envSize
	for _, e := range entries {
		path := filepath.Join(u.dir, "env", e.Name())
		if !variable.MatchString(e.Name()) || strings.HasPrefix(e.Name(), "HUTCH_") {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		value, err := readEnv(path)
		if err == nil {
			err = all.add(e.Name(), len(value))
		}
		if err != nil {
			return fmt.Errorf("archive: env/%s: %w", e.Name(), err)
		}
	}
	return nil
}

// checkSnapshots sees to it that what comes as a snapshot is one.
func (u *unpack) checkSnapshots() error {
	dir := filepath.Join(u.dir, "snap")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err := checkSnapshot(e.Name()); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if fi, err := os.Lstat(filepath.Join(dir, e.Name(), "record.json")); err != nil || fi.Size() > 64<<10 {
			return fmt.Errorf("%w: archive: snapshot %q has no record", fs.ErrInvalid, e.Name())
		}
		i, err := snapshot.Open(dir).Get(e.Name())
		if err == nil && (i.Undo || i.Boot != "") {
			err = fmt.Errorf("%w: snapshot %q is one for undo", fs.ErrInvalid, e.Name())
		}
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	return err
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
	s := stored{Name: now.Name, State: u.state, Reason: u.reason, Since: time.Now(), Made: now.Made, Anonymous: now.Anonymous, Driver: u.m.Driver}
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
	for _, key := range []string{"mount", "kernel"} {
		if value := u.config.Value(key); value != "" {
			list = append(list, "its config has "+key+" "+plainText(value))
		}
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

// leaving returns what tells how many bytes may be written to dir's file system,
// whoever else writes to it: of what it has left now some stays.
func leaving(dir string) (room func() int64) {
	free := func() int64 {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return 0
		}
		return int64(st.Bavail) * int64(st.Bsize)
	}
	stays := free() / 20
	return func() int64 { return free() - stays }
}

// plainText returns a text of an archive as it can stand in a line for people.
func plainText(s string) string { return fs.PlainLine(s[:min(len(s), 500)]) }
