package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/image"
	"hutch/vmm/own"
)

// A Table holds the VMs.
type Table struct {
	cfg    Options
	images *image.Store
	own    *own.List       // what no guest is to see
	life   context.Context // ends with the table
	end    context.CancelFunc
	tasks  sync.WaitGroup // what runs in the background

	mu     sync.RWMutex // guards vms, number and closed
	vms    map[string]*VM
	number int // of the last anonymous VM
	closed bool

	archives chan struct{} // has a token for each that is made or unpacked

	fill fill
	pace pace      // of what guests ask for
	logs *logWatch // nil: the meters cut logs

	litter []string // what Open finds half made or half removed
}

func (t *Table) dir() string { return filepath.Join(t.cfg.Dir, "vm") }

// background runs f in a goroutine that Close waits for, unless that has begun.
func (t *Table) background(f func()) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.closed {
		t.tasks.Go(f)
	}
}

// Images returns the images that VMs start from.
func (t *Table) Images() *image.Store { return t.images }

// RemoveImage removes the image called name, unless a VM has it.
func (t *Table) RemoveImage(name string) error {
	return t.images.Remove(name, func() error {
		for _, v := range t.List() {
			if v.Config().Image == name || v.look().Image == name {
				return fmt.Errorf("%w: image %s is used by vm %s", fs.ErrBusy, name, v.Name())
			}
		}
		return nil
	})
}

// Drivers returns a line on each driver: whether it works here, and how or
// why not.
func (t *Table) Drivers(ctx context.Context) string {
	var b strings.Builder
	for _, d := range t.cfg.Drivers {
		how, err := d.Probe(ctx)
		if err != nil {
			fmt.Fprintf(&b, "%s unavailable: %s\n", d.Name(), strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Fprintf(&b, "%s ok %s%s\n", d.Name(), how, strings.ReplaceAll(t.memoryLimit(d), "\n", "; "))
		}
	}
	return b.String()
}

func (t *Table) driver(name string) (Driver, error) {
	for _, d := range t.cfg.Drivers {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: driver %.64q", fs.ErrNotExist, name)
}

// profile returns what c's profile says.
func (t *Table) profile(c Config) Profile {
	if t.cfg.Profile == nil {
		return Profile{}
	}
	return t.cfg.Profile(cmp.Or(c.Profile, profiles.Default))
}

// effective returns what holds of a VM with the config c.
func (t *Table) effective(c Config) profiles.Effective {
	return profiles.Resolve(
		profiles.Layer{Source: "config", Config: c},
		profiles.Layer{Source: "profile " + cmp.Or(c.Profile, profiles.Default), Config: t.profile(c).Config},
		profiles.Layer{Source: "drivers", Config: Config{Driver: t.cfg.Drivers[0].Name()}},
		profiles.BuiltIn)
}

// Make makes a VM called name, which lives until it is removed.
func (t *Table) Make(ctx context.Context, name string) (*VM, error) {
	return t.MakeWith(ctx, name, "")
}

// MakeWith is Make of a VM that has a config from its beginning.
func (t *Table) MakeWith(_ context.Context, name, config string) (*VM, error) {
	if err := fs.CheckWord("VM", name); err != nil {
		return nil, err
	}
	return t.make(name, config, false)
}

// MakeAnonymous makes a VM with a number for a name, which is removed when it
// stops, and at the latest by Close.
func (t *Table) MakeAnonymous(ctx context.Context) (*VM, error) {
	for {
		t.mu.Lock()
		t.number++
		name := strconv.Itoa(t.number)
		t.mu.Unlock()
		if v, err := t.make(name, "", true); !errors.Is(err, fs.ErrExist) {
			return v, err
		}
	}
}

func (t *Table) make(name, config string, anon bool) (*VM, error) {
	now := time.Now()
	s := stored{Name: name, State: Created, Since: now, Made: now, Anonymous: anon}
	laid, err := os.MkdirTemp(t.dir(), ".gone-")
	if err != nil {
		return nil, err
	}
	defer removeAll(laid)
	if err := errors.Join(makeFolders(laid), s.save(laid, !anon)); err != nil {
		return nil, err
	}
	var c Config
	if config != "" {
		if c, err = t.parse(config); err != nil {
			return nil, err
		}
		if err := fs.WriteFile(filepath.Join(laid, "config"), []byte(config), true); err != nil {
			return nil, err
		}
	}
	v := newVM(t, name, t.folder(name), s)
	v.seen.config, v.seen.text = c, config
	return t.install(v, laid, "")
}

// install puts a new VM into the table, and what was laid for it into its
// folder: complete at once.
func (t *Table) install(v *VM, laid, why string) (*VM, error) {
	name := v.Name()
	err := t.add(v, name)
	if err == nil {
		if err = os.Rename(laid, v.dir); err != nil {
			t.drop(name)
		}
	}
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%w: vm %q", fs.ErrExist, name)
	}
	if err != nil {
		v.end()
		close(v.ended) // Close may have met it already
		v.side.Close()
		return nil, err
	}
	go v.own()
	v.event(EventMade, why)
	return v, nil
}

// folder returns the path for the folder of a new VM called name: of that
// name too, unless a VM has it that was given another one since.
func (t *Table) folder(name string) string {
	path := filepath.Join(t.dir(), name)
	for i := 1; ; i++ {
		if _, err := os.Lstat(path); err != nil {
			return path
		}
		path = filepath.Join(t.dir(), fmt.Sprintf("%s-%d", name, i))
	}
}

// errEnding is returned for what comes too late.
var errEnding = fmt.Errorf("%w: hutchd is ending", fs.ErrBusy)

// add puts v into the table under a name.
func (t *Table) add(v *VM, name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return errEnding
	case t.vms[name] != nil:
		return fmt.Errorf("%w: vm %q", fs.ErrExist, name)
	}
	t.vms[name] = v
	return nil
}

// drop takes the VM called name out of the table.
func (t *Table) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.vms, name)
}

// Lookup returns the VM called name.
func (t *Table) Lookup(name string) (*VM, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if v := t.vms[name]; v != nil {
		return v, nil
	}
	return nil, notExist(name)
}

// List returns the VMs, sorted by name.
func (t *Table) List() []*VM {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*VM, 0, len(t.vms))
	for _, v := range t.vms {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *VM) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.Compact(list) // one that just gets a name has two
}

// Remove removes the VM called name, which must be neither running nor
// suspended, with all its files.
func (t *Table) Remove(ctx context.Context, name string) error {
	v, err := t.Lookup(name)
	if err != nil {
		return err
	}
	return v.do(ctx, func() error {
		if err := v.Editable(); err != nil {
			return err
		}
		return v.remove()
	})
}

// Close ends the table: no new VMs are made, anonymous VMs are ended and
// removed, named ones that run run on. What a VM's owner is doing is waited
// for until ctx ends, then cut short. Sidecars are closed last.
func (t *Table) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	list := t.List()
	errs := make([]error, len(list))
	var wait sync.WaitGroup
	for i, v := range list {
		wait.Go(func() {
			if err := v.do(context.Background(), v.release); !errors.Is(err, fs.ErrNotExist) { // it went meanwhile
				errs[i] = err
			}
			<-v.ended
		})
	}
	wait.Wait()
	t.end()
	for _, v := range t.List() {
		v.endErrands()
	}
	t.tasks.Wait()
	for _, v := range t.List() {
		v.side.Close()
	}
	t.logs.close()
	t.fill.close()
	t.images.Close()
	if t.cfg.Groups != nil {
		t.cfg.Groups.Close()
	}
	return errors.Join(errs...)
}
