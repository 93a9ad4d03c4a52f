package vmm

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
	"hutch/fs/quantity"
	"hutch/vmm/cgroup"
	"hutch/vmm/disk"
)

// What a config limits is held to by the control group of the machine's
// processes, by the driver, or, for what a guest writes and how long it lives,
// by the meter. Whatever none of them can do is told in status.

// An Enforcer is a Driver that holds its machines to limits by itself.
type Enforcer interface {
	// Enforces says in a word how the limit that c sets by key is held to; ""
	// if it is not.
	Enforces(key string, c Config) string
}

// groupName is the name of the control group of the VM in the folder dir,
// whatever that is called by now. It is not one of the files that the system
// has beside groups.
func groupName(dir string) string { return "vm-" + filepath.Base(dir) }

// confine makes the control group for the machine that is planned.
func (v *VM) confine(p *plan) error {
	r := v.t.cfg.Groups
	if r == nil {
		return nil
	}
	g := r.Group(groupName(v.dir))
	if err := g.Remove(); err != nil {
		return err
	}
	// Whoever comes after a crash removes what is written down.
	if err := v.store(false, func(s *seen) { s.Group, s.Told, s.killed = g, cgroup.Events{}, time.Time{} }); err != nil {
		return err
	}
	if _, err := r.Make(groupName(v.dir), groupLimits(p.driver, p.config)); err != nil {
		return fmt.Errorf("%w: %w", fs.ErrIO, err)
	}
	p.spec.Enter = g.Entries()
	return nil
}

// groupLimits returns what the host's processes of a machine may have. Where
// the driver sees to memory they need some on top of the guest's. They are
// several for each of the guest, so that their number is but the last resort.
func groupLimits(d Driver, c Config) cgroup.Limits {
	l := cgroup.Limits{RAM: c.RAM, CPUs: c.CPUs, PIDs: 256 + 8*c.PIDs}
	if e, ok := d.(Enforcer); ok && c.RAM > 0 && e.Enforces("ram", c) != "" {
		l.RAM += l.RAM/4 + 256<<20
	}
	return l
}

// findGroup finds the control group of a machine that no state file tells of.
func (v *VM) findGroup() {
	r, name := v.t.cfg.Groups, groupName(v.dir)
	if r != nil && v.look().Group == nil && slices.Contains(r.Names(), name) {
		v.change(func(s *seen) { s.Group = r.Group(name) })
	}
}

// unconfine removes the machine's control group.
func (v *VM) unconfine() {
	g := v.look().Group
	if g == nil {
		return
	}
	if err := g.Remove(); err != nil {
		v.fail(fmt.Errorf("%w: vm %q: %w", fs.ErrIO, v.Name(), err))
		return // what is written down is removed at the next start
	}
	v.change(func(s *seen) { s.Group = nil })
}

// ranOut says what the machine ran out of before it ended, nil if of nothing.
func (v *VM) ranOut() error {
	if v.LastKilled().IsZero() {
		return nil
	}
	return v.OutOfMemory()
}

// OutOfMemory is why processes of the machine are killed for want of memory.
func (v *VM) OutOfMemory() error {
	if e := v.t.effective(v.look().config); e.RAM > 0 {
		return fmt.Errorf("killed: out of memory (ram %s)", e.Value("ram"))
	}
	return fmt.Errorf("killed: out of memory (the host has no more)")
}

// LastKilled returns when the host was last seen to have killed one of the machine's
// processes for want of memory, zero if it has not. Of a new one it tells by an event.
func (v *VM) LastKilled() time.Time {
	s := v.look()
	if s.Group == nil || s.Group.Events().OOM == 0 {
		return time.Time{}
	}
	n, fresh := s.Group.Events().OOM, false
	v.change(func(now *seen) {
		if fresh = n > now.Told.OOM; fresh {
			now.Told.OOM, now.killed = n, time.Now()
		} else if now.killed.IsZero() { // an earlier hutchd saw it
			now.killed = now.Began
		}
		s = *now
	})
	if fresh {
		v.event(EventOOM, v.OutOfMemory().Error())
	}
	return s.killed
}

// fits refuses to start a VM that has more on the disk than it may.
func (v *VM) fits(ctx context.Context, c Config) error {
	if c.Disk == 0 {
		return nil
	}
	used, err := disk.Used(ctx, c.Disk, v.diskDirs()...)
	if err != nil {
		return err
	}
	v.change(func(s *seen) { s.use.disk = used })
	if used > c.Disk {
		return fmt.Errorf("%w: %s: remove files from work, or set disk", fs.ErrNoSpace, diskText(used, c.Disk))
	}
	return nil
}

// diskDirs are the folders that a guest writes to.
func (v *VM) diskDirs() []string { return []string{v.path("layer"), v.path("work")} }

func diskText(used, limit int64) string {
	return fmt.Sprintf("disk: more than %s are used, %s may be", mib(min(used, limit)), quantity.SizeText(limit))
}

func mib(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }

// limits are the keys of a config that a driver or a control group enforces, each
// with the controller that can.
var limits = []struct{ key, controller string }{{"ram", cgroup.Memory}, {"cpus", cgroup.CPU}, {"pids", ""}}

// How the limit that c sets by key is held to; or why it is not.
func (v *VM) enforced(key, controller string, s seen, c Config) (how string, err error) {
	d, derr := v.t.driver(c.Driver)
	if e, ok := d.(Enforcer); ok && derr == nil {
		if how := e.Enforces(key, c); how != "" {
			return how, nil
		}
	}
	if controller == "" {
		return "", fmt.Errorf("the driver cannot")
	}
	return "cgroup", v.missing(controller, s)
}

// missing says why a machine is, or would be, in no control group with controller.
func (v *VM) missing(controller string, s seen) error {
	switch {
	case s.Group != nil && s.State.alive() && s.Group.Has(controller):
		return nil
	case s.State.alive() && v.t.missing(controller) == nil:
		return fmt.Errorf("the machine was started without control groups: start it again")
	}
	return v.t.missing(controller)
}

// missing says why no machine would be in a control group with controller.
func (t *Table) missing(controller string) error {
	if t.cfg.Groups == nil {
		return fmt.Errorf("there are no control groups; %s", remedy())
	}
	if err := t.cfg.Groups.Missing(controller); err != nil {
		return fmt.Errorf("%w; %s", err, remedy())
	}
	return nil
}

// remedy says how the service gets control groups.
func remedy() string {
	if os.Getuid() == 0 {
		return "hutch doctor says what this machine lacks"
	}
	return "start hutchd by systemd-run --user --scope -p Delegate=yes hutchd; hutch doctor says more"
}

// checkLimits refuses a machine that could not be held to all limits of c, where that is
// required.
func (v *VM) checkLimits(c Config) error {
	if !v.t.cfg.RequireLimits {
		return nil
	}
	for _, l := range limits {
		if value := c.Value(l.key); value != "" {
			if _, err := v.enforced(l.key, l.controller, seen{}, c); err != nil {
				return fmt.Errorf("%w: %s %s cannot be enforced, and hutchd has -require-limits: %w", fs.ErrUnsupported, l.key, value, err)
			}
		}
	}
	return nil
}

// memoryLimit says what would hold the driver's machines to a limit of memory.
func (t *Table) memoryLimit(d Driver) string {
	if e, ok := d.(Enforcer); ok {
		if how := e.Enforces("ram", Config{}); how != "" {
			return " ram=" + how
		}
	}
	if err := t.missing(cgroup.Memory); err != nil {
		return fmt.Sprintf(" ram=unlimited (%s)", err)
	}
	return " ram=cgroup"
}

// limits returns the lines of status that tell the VM's limits, how near it
// is to them, and what holds it to them.
func (v *VM) limits(s seen, c Config) string {
	var b strings.Builder
	line := func(key, controller, used, limit string) {
		if limit == "" {
			return
		}
		if used != "" && s.State.alive() {
			limit = used + " of " + limit
		}
		how, err := v.enforced(key, controller, s, c)
		if err != nil {
			fmt.Fprintf(&b, "%s %s not enforced: %s\n", key, limit, strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		fmt.Fprintf(&b, "%s %s by %s\n", key, limit, how)
	}
	ram, pids := "", ""
	if s.use.ram > 0 {
		ram = mib(s.use.ram)
	}
	if s.use.processes > 0 {
		pids = strconv.Itoa(s.use.processes)
	}
	used := map[string]string{"ram": ram, "pids": pids}
	for _, l := range limits {
		line(l.key, l.controller, used[l.key], c.Value(l.key))
	}
	if c.Disk > 0 {
		fmt.Fprintf(&b, "disk %s of %s by measuring\n", mib(s.use.disk), c.Value("disk"))
	}
	var last, began time.Time
	if s.State.alive() {
		last, began = v.lastUse(), s.Began
	}
	timeLine(&b, "idle", last, c.Idle)
	timeLine(&b, "ttl", began, c.TTL)
	return b.String()
}

func timeLine(b *strings.Builder, key string, since time.Time, limit time.Duration) {
	switch {
	case limit == 0:
	case since.IsZero():
		fmt.Fprintf(b, "%s %s\n", key, quantity.TimeText(limit))
	default:
		fmt.Fprintf(b, "%s %s of %s\n", key, time.Since(since).Round(time.Second), quantity.TimeText(limit))
	}
}

// processors is how many a guest sees that has the time of n: 0 is all.
func processors(n float64) int { return int(math.Ceil(n)) }
