package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hutch/fs"
	"hutch/vmm/cgroup"
	"hutch/vmm/image"
)

// Options say how Open makes a table.
type Options struct {
	Dir          string                    // the state folder; VMs are in Dir/vm, images in Dir/images
	Drivers      []Driver                  // the first is the default
	StartLimit   time.Duration             // for a guest to be there; 0: 2 m
	StopGrace    time.Duration             // for a guest to shut down, and again for its init to end; 0: 5 s
	MeasureLimit time.Duration             // for what a machine uses to be measured for its status; 0: 100 ms
	Profile      func(name string) Profile // what a profile says of its machines; nil: nothing
	Groups       *cgroup.Root              // makes machines' control groups; nil: none are made
	Hooks        Hooks
	Event        func(Event) // is told of each event; it must not wait
}

// A Profile is what a profile says of the machines that have it. A VM's own
// config and environment go before it.
type Profile struct {
	Config Config
	Env    []string // K=V
	Err    error    // why the profile, as it was last written, has another meaning or none
}

// Hooks connect a VM to what serves it. Nil ones do nothing. All are called
// from the VM's owner or the driver, so they must not wait for the VM's verbs.
type Hooks struct {
	// Start is called before the VM's machine starts, and when Open adopts
	// one that runs. An error fails the start, but does not end what runs.
	Start func(ctx context.Context, v *VM) error
	// Conn takes a connection that the guest made to a port other than the agent's.
	Conn func(v *VM, port uint32, c net.Conn)
	// Stop is called once for each Start, also one that failed: when the machine
	// has ended, or when Close lets it run on without this process.
	Stop func(v *VM)
	// PIDs returns the processes that serve the VM beside its machine. Their
	// memory, and that of their children, is counted as the VM's.
	PIDs func(v *VM) []int
	// Busy says whether the VM is used beside its guest, or was since it was
	// asked last, as by MCP calls.
	Busy func(v *VM) bool
	// Reverted is called when the VM's workspace is another folder, under the same name.
	Reverted func(v *VM)
	// Remove is called when the VM is gone, with its files still there to be closed.
	Remove func(v *VM)
}

func (o Options) withDefaults() Options {
	if o.StartLimit == 0 {
		o.StartLimit = 2 * time.Minute // a machine without KVM on a busy host needs most of it
	}
	if o.StopGrace == 0 {
		o.StopGrace = 5 * time.Second
	}
	if o.MeasureLimit == 0 {
		o.MeasureLimit = 100 * time.Millisecond
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

// A Table holds the VMs.
type Table struct {
	cfg    Options
	images *image.Store
	life   context.Context // ends with the table
	end    context.CancelFunc
	tasks  sync.WaitGroup // what runs in the background

	sharing sync.RWMutex // guards vms, number and closed
	vms     map[string]*VM
	number  int // of the last anonymous VM
	closed  bool

	fill fill
	pace pace      // of what guests ask for
	logs *logWatch // nil: the meters cut logs

	litter []string // what Open finds half made or half removed
}

// Open returns the table of the VMs that the state folder knows. Those whose
// machines still run are running; anonymous ones are ended.
func Open(cfg Options) (*Table, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Table{cfg: cfg, vms: make(map[string]*VM), pace: make(pace, 1)}
	if err := os.MkdirAll(t.dir(), 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(t.dir())
	if err != nil {
		return nil, err
	}
	t.images = image.Open(filepath.Join(cfg.Dir, "images"))
	t.life, t.end = context.WithCancel(context.Background())
	t.logs = watchLogs(t.life)
	t.fill.dir = t.dir()
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

func (t *Table) dir() string { return filepath.Join(t.cfg.Dir, "vm") }

// find takes up what is in the folder called name.
func (t *Table) find(name string) {
	path := filepath.Join(t.dir(), name)
	if strings.HasPrefix(name, ".gone-") {
		t.litter = append(t.litter, path)
		return
	}
	if CheckName(name) != nil {
		return
	}
	v := newVM(t, name, path, stored{})
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
		case v.unsettled():
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

// background runs f in a goroutine that Close waits for, unless that has begun.
func (t *Table) background(f func()) {
	t.sharing.RLock()
	defer t.sharing.RUnlock()
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
			fmt.Fprintf(&b, "%s ok %s\n", d.Name(), how)
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
	return nil, fmt.Errorf("%w: driver %q", fs.ErrNotExist, shorten(name))
}

// profile returns what c's profile says.
func (t *Table) profile(c Config) Profile {
	if t.cfg.Profile == nil {
		return Profile{}
	}
	return t.cfg.Profile(cmp.Or(c.Profile, defaultProfile))
}

const defaultProfile = "default"

// effective returns c with what its profile says, then defaults filled in.
func (t *Table) effective(c Config) Config {
	p := t.profile(c).Config
	c.Image, c.Driver, c.Net = cmp.Or(c.Image, p.Image), cmp.Or(c.Driver, p.Driver), cmp.Or(c.Net, p.Net)
	c.Kernel = cmp.Or(c.Kernel, p.Kernel)
	c.RAM, c.CPUs, c.Disk = cmp.Or(c.RAM, p.RAM), cmp.Or(c.CPUs, p.CPUs), cmp.Or(c.Disk, p.Disk)
	c.PIDs = cmp.Or(c.PIDs, p.PIDs, defaultPIDs)
	c.Records = cmp.Or(c.Records, p.Records, defaultRecords)
	c.Idle, c.TTL = cmp.Or(c.Idle, p.Idle), cmp.Or(c.TTL, p.TTL)
	for _, d := range []struct {
		field *string
		value string
	}{{&c.Image, image.Host}, {&c.Profile, defaultProfile}, {&c.Driver, t.cfg.Drivers[0].Name()}, {&c.Net, "none"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return c
}

// Make makes a VM called name, which lives until it is removed.
func (t *Table) Make(ctx context.Context, name string) (*VM, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return t.make(name, false)
}

// MakeAnonymous makes a VM with a number for a name, which is removed when it
// stops, and at the latest by Close.
func (t *Table) MakeAnonymous(ctx context.Context) (*VM, error) {
	for {
		t.sharing.Lock()
		t.number++
		name := strconv.Itoa(t.number)
		t.sharing.Unlock()
		if v, err := t.make(name, true); !errors.Is(err, fs.ErrExist) {
			return v, err
		}
	}
}

func (t *Table) make(name string, anon bool) (*VM, error) {
	now := time.Now()
	v := newVM(t, name, t.folder(name), stored{State: Created, Since: now, Made: now, Anonymous: anon})
	if err := t.add(v, name); err != nil {
		return nil, err
	}
	if err := v.lay(); err != nil {
		t.forget(v)
		close(v.ended)
		return nil, err
	}
	go v.own()
	t.event(name, EventMade, "")
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

// lay makes the VM's folder, complete at once under its name.
func (v *VM) lay() error {
	tmp, err := os.MkdirTemp(filepath.Dir(v.dir), ".gone-")
	if err != nil {
		return err
	}
	err = folders(tmp)
	if err == nil {
		err = v.seen.stored.save(tmp, !v.Anonymous())
	}
	if err == nil {
		err = os.Rename(tmp, v.dir)
	}
	if err != nil {
		removeAll(tmp)
	}
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: vm %q", fs.ErrExist, v.Name())
	}
	return err
}

// errEnding is returned for what comes too late.
var errEnding = fmt.Errorf("%w: hutchd is ending", fs.ErrBusy)

// add puts v into the table under a name.
func (t *Table) add(v *VM, name string) error {
	t.sharing.Lock()
	defer t.sharing.Unlock()
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
	t.sharing.Lock()
	defer t.sharing.Unlock()
	delete(t.vms, name)
}

func (t *Table) forget(v *VM) {
	t.drop(v.Name())
	v.end()
}

// Lookup returns the VM called name.
func (t *Table) Lookup(name string) (*VM, error) {
	t.sharing.RLock()
	defer t.sharing.RUnlock()
	if v := t.vms[name]; v != nil {
		return v, nil
	}
	return nil, notExist(name)
}

// List returns the VMs, sorted by name.
func (t *Table) List() []*VM {
	t.sharing.RLock()
	defer t.sharing.RUnlock()
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

// StopAll stops every VM that runs. Suspended ones stay so.
func (t *Table) StopAll(ctx context.Context) error {
	return t.each(func(v *VM) error {
		if v.State() == Suspended {
			return nil
		}
		err := v.Stop(ctx)
		if errors.Is(err, fs.ErrBusy) {
			return nil
		}
		return err
	})
}

// each does f for all VMs at the same time. One that goes meanwhile is fine.
func (t *Table) each(f func(v *VM) error) error {
	list := t.List()
	errs := make([]error, len(list))
	var wait sync.WaitGroup
	for i, v := range list {
		wait.Go(func() {
			if err := f(v); !errors.Is(err, fs.ErrNotExist) {
				errs[i] = err
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Close ends the table: no new VMs are made, anonymous VMs are ended and
// removed, named ones that run run on. What a VM's owner is doing is waited
// for until ctx ends, then cut short. To stop the named ones too, call
// StopAll first.
func (t *Table) Close(ctx context.Context) error {
	t.sharing.Lock()
	t.closed = true
	t.sharing.Unlock()
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	err := t.each(func(v *VM) error {
		err := v.do(context.Background(), v.release)
		<-v.ended
		return err
	})
	t.end()
	for _, v := range t.List() {
		v.endErrands()
	}
	t.tasks.Wait()
	t.logs.close()
	t.fill.close()
	t.images.Close()
	if t.cfg.Groups != nil {
		t.cfg.Groups.Close()
	}
	return err
}

func (t *Table) event(vm string, kind Kind, text string) {
	if t.cfg.Event != nil {
		t.cfg.Event(Event{Time: time.Now(), VM: vm, Kind: kind, Text: text})
	}
}
