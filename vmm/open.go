package vmm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hutch/fs"
	"hutch/vmm/cgroup"
	"hutch/vmm/image"
	"hutch/vmm/own"
	"hutch/vmm/replica"
)

// Options say how Open makes a table.
type Options struct {
	Dir          string                    // the state folder; VMs are in Dir/vm, images in Dir/images
	Drivers      []Driver                  // the first is the default
	StartLimit   time.Duration             // for a guest to be there; 0: 2 m
	StopGrace    time.Duration             // for a guest to shut down, and again for its init to end; 0: 5 s
	MeasureLimit time.Duration             // for what a machine uses to be measured for its status; 0: 100 ms
	Profile      func(name string) Profile // what a profile says of its machines; nil: nothing
	Own          *own.List                 // what is the service's, and no guest's to see; nil: Dir
	Groups       *cgroup.Root              // makes machines' control groups; nil: none are made

	RequireLimits bool // no machine is made that cannot be held to the limits of its config

	Sidecar func(v *VM) Sidecar // makes the sidecar of a VM, which can be asked its name and folders so far; nil: none has one
}

// A Profile is what a profile says of the machines that have it. A VM's own
// config and environment go before it.
type Profile struct {
	Config Config
	Env    []string // K=V
	Err    error    // why the profile, as it was last written, has another meaning or none
	// Admit says why a VM of the profile cannot have a config, and which key of
	// it is to blame. Nil: it can have any.
	Admit func(Config) (key string, err error)
	// AdmitEnv says why a variable of the VM cannot have a value. Nil: it can.
	AdmitEnv func(name, value string) error
}

func (o Options) withDefaults() Options {
	o.StartLimit = cmp.Or(o.StartLimit, 2*time.Minute) // a machine without KVM on a busy host needs most of it
	o.StopGrace = cmp.Or(o.StopGrace, 5*time.Second)
	o.MeasureLimit = cmp.Or(o.MeasureLimit, 100*time.Millisecond)
	if o.Sidecar == nil {
		o.Sidecar = func(*VM) Sidecar { return none{} }
	}
	return o
}

func (o Options) validate() error {
	switch {
	case !filepath.IsAbs(o.Dir):
		return fmt.Errorf("%w: state folder %q is not absolute", fs.ErrInvalid, o.Dir)
	case len(o.Drivers) == 0:
		return fmt.Errorf("%w: no driver", fs.ErrInvalid)
	}
	return nil
}

// Open returns the table of the VMs that the state folder knows. Those whose
// machines still run are running; anonymous ones are ended.
func Open(cfg Options) (*Table, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Table{cfg: cfg, vms: make(map[string]*VM), pace: make(pace, 1), archives: make(chan struct{}, maxArchives)}
	if err := os.MkdirAll(t.dir(), 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(t.dir())
	if err != nil {
		return nil, err
	}
	if t.own = cfg.Own; t.own == nil {
		t.own = own.New([]own.Item{{What: "the state of hutchd", Path: cfg.Dir}})
	}
	t.images = image.Open(filepath.Join(cfg.Dir, "images"))
	t.images.Admit = func(dir string) error { return t.own.Refuse(dir, true) }
	t.life, t.end = context.WithCancel(context.Background())
	t.logs = watchLogs(t.life)
	t.fill.dir = t.dir()
	t.litter = replica.Leftovers(t.dir())
	for _, e := range entries {
		t.find(e.Name())
	}
	t.adoptAll()
	t.sweepGroups()
	// What an earlier process had begun may have been writing there until now.
	t.background(func() {
		for _, path := range t.litter {
			removeAll(path)
		}
	})
	return t, nil
}

// find takes up what is in the folder called name.
func (t *Table) find(name string) {
	if fs.CheckWord("VM", name) != nil {
		return
	}
	v := newVM(t, name, filepath.Join(t.dir(), name), stored{})
	v.load()
	v.sweep()
	if t.vms[v.Name()] != nil { // which nothing but a hand can have brought about
		v.change(func(s *seen) { s.Name = name })
	}
	t.vms[v.Name()] = v
}

// adoptAll starts the owners, and has them find the machines that run.
func (t *Table) adoptAll() {
	var wait sync.WaitGroup
	for _, v := range t.List() {
		go v.own()
		switch {
		case v.Anonymous():
			t.background(func() { v.do(t.life, v.discard) })
		case v.needsAdoption():
			wait.Go(func() { v.do(t.life, func() error { return v.adopt(t.life) }) })
		}
	}
	wait.Wait()
}

// sweepGroups removes the control groups that an earlier process left.
func (t *Table) sweepGroups() {
	if t.cfg.Groups == nil {
		return
	}
	keep := make(map[string]bool)
	for _, v := range t.List() {
		keep[groupName(v.dir)] = v.State().alive()
	}
	for _, name := range t.cfg.Groups.Names() {
		if !keep[name] {
			t.cfg.Groups.Group(name).Remove()
		}
	}
}
