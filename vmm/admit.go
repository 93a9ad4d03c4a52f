package vmm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/pack"
	"hutch/vmm/process"
	"hutch/vmm/snapshot"
)

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
