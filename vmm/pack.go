package vmm

import (
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

	"hutch/fs"
	"hutch/vmm/image"
	"hutch/vmm/pack"
	"hutch/vmm/replica"
)

// How a VM is packed:
//
//	1. of one that runs, folders are copied as for a fork: while the guest stands
//	   still what has changed since. Of others nothing is copied.
//	2. the folders are read into the archive, as fast as that is taken. Of a VM
//	   that does not run its own are, so it must stay as it is until then.
//
// What of a VM is nobody else's, as the keys of its programs, is in no part.

// PackHooks are how a VM's owner takes part in packing and unpacking it: with its
// records, which are none of package vmm's files. What is nil is nothing.
type PackHooks struct {
	// Secret says whether a variable of env is secret. Its value stays.
	Secret func(name, value string) bool
	// Tables calls add with each table of the records.
	Tables func(ctx context.Context, add func(name string, size int64, r io.Reader) error) error
	// Table takes a table of an archive; dir is where the VM's files are made.
	Table func(ctx context.Context, dir, name string, r io.Reader) error
	// TablesDone is told that there are no more, also after an error.
	TablesDone func(dir string) error
	// Replace does what replaces the VM's files while nobody has them open.
	Replace func(do func() error) error
}

func (h PackHooks) withDefaults() PackHooks {
	if h.Secret == nil {
		h.Secret = func(string, string) bool { return false }
	}
	if h.Tables == nil {
		h.Tables = func(context.Context, func(string, int64, io.Reader) error) error { return nil }
	}
	if h.Table == nil {
		h.Table = func(context.Context, string, string, io.Reader) error { return nil }
	}
	if h.TablesDone == nil {
		h.TablesDone = func(string) error { return nil }
	}
	if h.Replace == nil {
		h.Replace = func(do func() error) error { return do() }
	}
	return h
}

// maxPacks is how many archives of a VM are made at once: those of one that runs
// have a copy of it each.
const maxPacks = 4

// maxArchives is how many archives are made and unpacked at once, of all VMs: each
// takes up to 10 MiB of this process' memory.
const maxArchives = 16

// archive takes a turn to make or unpack an archive, or fails with ErrBusy. over
// gives it back.
func (t *Table) archive() (over func(), err error) {
	select {
	case t.archives <- struct{}{}:
		return func() { <-t.archives }, nil
	default:
		return nil, fmt.Errorf("%w: %d archives are being made or unpacked already", fs.ErrBusy, maxArchives)
	}
}

// A packing is an archive in the making.
type packing struct {
	v     *VM
	want  pack.Options
	hooks PackHooks

	was     seen          // the VM when it was packed
	dir     string        // where its folders are read
	copied  bool          // which is a copy
	base    []pack.Folder // what every archive has
	rest    []pack.Folder // what comes behind the records
	release []func()
	m       pack.Manifest
}

// Pack writes the VM as an archive to w, with what want says. It ends with ctx,
// and with the VM, when it closes w, which is to end a Write under way.
// A VM that does not run must stay so, or it fails.
func (v *VM) Pack(ctx context.Context, w io.WriteCloser, want pack.Options, hooks PackHooks) error {
	ctx, done, err := v.errand(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	select {
	case v.packs <- struct{}{}:
		defer func() { <-v.packs }()
	default:
		return fmt.Errorf("%w: %d archives of vm %q are being made already", fs.ErrBusy, maxPacks, v.Name())
	}
	over, err := v.t.archive()
	if err != nil {
		return err
	}
	defer over()
	p := &packing{v: v, want: want, hooks: hooks.withDefaults(), dir: v.dir}
	defer p.close()
	if err = makeFolders(v.dir); err == nil { // an earlier version made fewer
		err = p.freeze(ctx)
	}
	if err == nil {
		err = p.plan(ctx)
	}
	if err == nil {
		err = p.write(ctx, w)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		v.event(EventPacked, strings.Join(p.parts(), " "))
	}
	return err
}

func (p *packing) close() {
	for _, f := range p.release {
		f()
	}
	if p.copied {
		removeAll(p.dir)
	}
}

// freeze does step 1.
func (p *packing) freeze(ctx context.Context) error {
	v := p.v
	if !v.State().alive() {
		return v.turn(ctx, func() error {
			p.was = v.look()
			if p.was.State.alive() {
				return fmt.Errorf("%w: vm %q has just been started: pack it again", fs.ErrBusy, v.Name())
			}
			return nil
		})
	}
	dir, err := os.MkdirTemp(v.dir, ".new-")
	if err != nil {
		return err
	}
	p.dir, p.copied = dir, true
	set := replica.NewSet(v.dir, dir, forkedParts...)
	if err := set.Ahead(ctx); err != nil {
		return err
	}
	return v.turn(ctx, func() error {
		p.was = v.look()
		_, err := v.frozen(ctx, func(ctx context.Context) error {
			_, err := set.Copy(ctx)
			return err
		})
		return err
	})
}

// plan looks up what goes into the archive.
func (p *packing) plan(ctx context.Context) error {
	v := p.v
	c := v.t.effective(p.was.config).Config
	said := p.was.config
	said.Image, said.Driver = c.Image, c.Driver
	p.m = pack.Manifest{
		Version: fs.Version, Name: v.Name(), Taken: time.Now().UTC(), State: string(p.was.State),
		Config: said.Text(), Driver: c.Driver, Image: v.t.describe(c.Image), Sizes: make(map[string]pack.Size),
	}
	secret, err := p.secrets()
	if err != nil {
		return err
	}
	p.m.Secrets = secret
	p.base = []pack.Folder{
		{Name: "env", Dir: filepath.Join(p.dir, "env"), Omit: func(name string) bool {
			return !variable.MatchString(name) || slices.Contains(secret, name)
		}},
		{Name: "work", Dir: filepath.Join(p.dir, "work")},
		{Name: "layer", Dir: filepath.Join(p.dir, "layer")},
	}
	if err := p.pins(); err != nil {
		return err
	}
	if p.want.Logs {
		p.add(pack.Folder{Name: "log", Dir: v.path("log"), Omit: func(name string) bool { return !slices.Contains(logNames, name) }})
	}
	if p.want.Snapshots {
		if err := p.snapshots(); err != nil {
			return err
		}
	}
	if p.was.State == Suspended {
		if err := p.memory(); err != nil {
			return err
		}
	}
	return p.count(ctx)
}

// pins adds the pins, if there are any: earlier versions know no such part.
func (p *packing) pins() error {
	f := pack.Folder{Name: pinsFolder, Dir: filepath.Join(p.dir, pinsFolder), Omit: func(name string) bool { return name[0] == '.' }}
	files, err := os.ReadDir(f.Dir)
	if err == nil && len(files) > 0 {
		p.base = append(p.base, f)
	}
	return err
}

// count notes how much is in the folders.
func (p *packing) count(ctx context.Context) error {
	for _, f := range slices.Concat(p.base, p.rest) {
		size, sockets, err := pack.Count(ctx, f)
		if err != nil {
			return err
		}
		p.m.Sizes[f.Name] = size
		if sockets > 0 {
			if p.m.Skipped == nil {
				p.m.Skipped = make(map[string]int64)
			}
			p.m.Skipped[f.Name] = sockets
		}
	}
	return nil
}

func (p *packing) add(f pack.Folder) { p.rest = append(p.rest, f) }

// snapshots adds the snapshots that there are, and keeps them until the end.
func (p *packing) snapshots() error {
	list, err := p.v.snaps.List()
	if err != nil || len(list) == 0 {
		return err
	}
	var names []string
	for _, i := range list {
		if i.Undo { // which is nothing without what it is to undo
			continue
		}
		_, release, err := p.v.snaps.Hold(i.Name)
		if errors.Is(err, fs.ErrNotExist) { // it was just dropped
			continue
		}
		if err != nil {
			return err
		}
		names, p.release = append(names, i.Name), append(p.release, release)
	}
	p.add(pack.Folder{Name: "snap", Dir: p.v.path("snap"), Omit: func(name string) bool {
		top, rest, below := strings.Cut(name, "/")
		return !slices.Contains(names, top) || below && strings.HasSuffix(rest, ".seen") && !strings.Contains(rest, "/")
	}})
	return nil
}

func (p *packing) parts() (names []string) {
	for _, f := range slices.Concat(p.base, p.rest) {
		names = append(names, f.Name)
	}
	return names
}

// write does step 2.
func (p *packing) write(ctx context.Context, w io.Writer) error {
	a, err := pack.NewWriter(w, p.m)
	if err != nil {
		return err
	}
	defer a.Abandon()
	if err := p.copyFolders(ctx, a, p.base); err != nil {
		return err
	}
	if p.want.Ledger {
		err := p.hooks.Tables(ctx, func(name string, size int64, r io.Reader) error {
			return a.File("ledger/"+name+".jsonl", size, r)
		})
		if err != nil {
			return err
		}
	}
	if err := p.copyFolders(ctx, a, p.rest); err != nil {
		return err
	}
	return a.Close()
}

func (p *packing) copyFolders(ctx context.Context, a *pack.Writer, folders []pack.Folder) error {
	for _, f := range folders {
		before, err := os.Lstat(f.Dir)
		if err != nil {
			return err
		}
		if err := a.Folder(ctx, f, p.still); err != nil {
			return errors.Join(p.still(), err)
		}
		if after, err := os.Lstat(f.Dir); err != nil || !os.SameFile(before, after) {
			return p.moved()
		}
		if err := p.still(); err != nil {
			return err
		}
	}
	return nil
}

// still says whether a VM that did not run is as it was.
func (p *packing) still() error {
	if now := p.v.look(); !p.copied && (now.State != p.was.State || !now.Since.Equal(p.was.Since)) {
		return p.moved()
	}
	return nil
}

func (p *packing) moved() error {
	return fmt.Errorf("%w: vm %q was started or changed while it was packed: pack it again", fs.ErrBusy, p.v.Name())
}

// describe returns what others can know the image called name by. Of one that
// has gone that is its name.
func (t *Table) describe(name string) pack.Image {
	img, err := t.images.Lookup(name)
	if err != nil {
		return pack.Image{Name: name, Arch: runtime.GOARCH}
	}
	return imageOf(img)
}

func imageOf(i image.Image) pack.Image {
	p := pack.Image{Name: i.Name, Kind: i.Kind, Source: i.Source, Digest: i.Digest(), Arch: i.Architecture()}
	if p.Kind == "folder" || p.Kind == image.Host {
		p.Source = "" // a path of this machine
	}
	return p
}
