package vmm

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"hutch/fs/quantity"
	"hutch/relay/guest"
	"hutch/vmm/cgroup"
	"hutch/vmm/disk"
	"hutch/vmm/process"
)

// usage is what a running VM has of what is limited, as last measured.
type usage struct {
	ram       int64 // bytes that its processes on the host hold
	processes int   // and threads, in the guest
	disk      int64 // bytes, layer and workspace
}

// A meter measures a machine that runs, tells when it comes up against a
// limit, and has its VM stopped when there is no other way. It only reads;
// what changes the VM is the owner's to do.
type meter struct {
	v       *VM
	machine Machine
	guest   *guest.Guest
	config  Config
	counts  bool // the driver limits processes
	cuts    bool // nobody else cuts logs
	end     context.CancelFunc
	ended   chan struct{}

	answer <-chan guest.Load // that the guest still owes; nil: none
	asking sync.WaitGroup
	asked  time.Time // when it was asked last

	filling chan struct{} // there may be more on the disk than there may be
	busy    time.Duration // processor time of the machine when it was looked at
	looked  time.Time     // when that was
	quiet   time.Duration // how long the next look can wait

	told      cgroup.Events // those that events were told of
	crowded   bool          // it was told that there are too many processes
	saved     time.Time     // the last use that is written down
	next      time.Time     // for the disk to be measured again, at the soonest
	measured  time.Time     // when it was
	filled    int64         // the disk's use then
	remaining int64         // what the guest could still write then
	over      bool          // there is so much that the VM is not given time to end
}

// A machine that does something is looked at every second, one that does
// nothing seldom: each look wakes this process, and the guest.
const (
	meterEvery  = time.Second
	meterSeldom = 16 * time.Second
	idleParts   = 20               // the time without use is known to one part of so many of its limit
	diskEvery   = 30 * time.Second // if nothing says that there is more on the disk
	diskShare   = 20               // measuring takes at most one part of so many of the time
)

// watch has the machine metered until unwatch. The owner calls it.
func (v *VM) watch() {
	if v.meter != nil || v.machine == nil {
		return
	}
	s := v.look()
	ctx, cancel := context.WithCancel(v.t.life)
	m := &meter{
		v: v, machine: v.machine, guest: s.guest, config: v.t.effective(s.config).Config,
		end: cancel, ended: make(chan struct{}), told: s.Told, saved: s.Used,
		filling: make(chan struct{}, 1), quiet: meterEvery,
	}
	_, err := v.enforced("pids", "", s, m.config)
	m.counts = err == nil
	m.cuts = !v.t.logs.add(v)
	v.meter = m
	go m.run(ctx)
}

// unwatch ends the meter and waits for it.
func (v *VM) unwatch() {
	if v.meter != nil {
		v.meter.end()
		<-v.meter.ended
		v.t.logs.drop(v)
		v.meter = nil
	}
}

func (m *meter) run(ctx context.Context) {
	defer close(m.ended)
	defer m.asking.Wait()
	defer m.end()
	defer m.v.t.fill.drop(m)
	for {
		if why := m.measure(ctx); why != "" {
			m.stop(ctx, why)
			return
		}
		if !m.rest(ctx) {
			return
		}
	}
}

// rest waits until something is to be measured again, and says whether it is:
// not when ctx has ended.
func (m *meter) rest(ctx context.Context) bool {
	began := time.Now()
	wait := time.NewTimer(m.pause())
	defer wait.Stop()
	asked := m.v.asked
	for {
		select {
		case <-wait.C:
			return true
		case <-m.filling:
			return sleep(ctx, time.Until(m.next))
		case <-asked: // somebody reads what is used
			asked, m.looked = nil, time.Time{}
			wait.Reset(time.Until(began.Add(meterEvery)))
		case <-ctx.Done():
			return false
		}
	}
}

// sleep waits, and says whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pause returns how long nothing need be measured: until one of the VM's times
// may be up, and a second at most while the machine does something.
func (m *meter) pause() time.Duration {
	d := m.quiet
	if limit := m.config.Idle; limit > 0 {
		d = min(d, max(limit/idleParts, meterEvery), time.Until(m.v.lastUse().Add(limit)))
	}
	if m.config.TTL > 0 {
		d = min(d, time.Until(m.v.look().Began.Add(m.config.TTL)))
	}
	return max(d, meterEvery/20)
}

// active says whether the machine does anything, and sets how long the next
// look can wait: twice as long each time that it does not. What an idle
// sandbox itself takes is nothing.
func (m *meter) active(now time.Time) bool {
	pids := m.v.look().pids
	known := len(pids) > 0 && runtime.GOOS == "linux"
	busy := process.Time(pids[:min(1, len(pids))]) // of the main one
	did, took := busy-m.busy, now.Sub(m.looked)
	first := m.looked.IsZero()
	m.busy, m.looked = busy, now
	if !known || first || did > max(50*time.Millisecond, took/20) {
		m.quiet = meterEvery
		return true
	}
	m.quiet = min(2*m.quiet, meterSeldom)
	return false
}

// measure looks at everything once, and says why the VM has to stop, if so.
func (m *meter) measure(ctx context.Context) string {
	now := time.Now() // what is used from here on is not idle, however long the rest takes
	active := m.active(now)
	if active {
		m.group(ctx)
	}
	if m.cuts {
		m.v.cutLogs()
	}
	if m.v.State() != Running {
		return ""
	}
	m.load(ctx, now, active)
	if why := m.disk(ctx); why != "" {
		return why
	}
	if why := m.idle(ctx, now); why != "" {
		return why
	}
	if began := m.v.look().Began; m.config.TTL > 0 && time.Since(began) >= m.config.TTL {
		return "ttl: it ran for " + quantity.TimeText(m.config.TTL)
	}
	return ""
}

// post has the owner do f, unless the machine is another one by then.
func (m *meter) post(ctx context.Context, f func()) {
	select {
	case m.v.posts <- func() {
		if m.v.machine == m.machine && m.v.meter == m {
			f()
		}
	}:
	case <-ctx.Done():
	}
}

// stop has the VM stopped in order, for the reason why.
func (m *meter) stop(ctx context.Context, why string) {
	m.v.event(EventLimit, why)
	m.post(ctx, func() { m.v.fail(m.v.stop(!m.over, why)) })
	m.overdo(ctx)
}

// most is how much may be on the disk of a VM that is given time to end.
func (m *meter) most() int64 { return m.config.Disk + m.config.Disk/4 }

// overdo sees to it that a VM which is being stopped does not use the time that
// its commands have to end for writing: then it has none.
func (m *meter) overdo(ctx context.Context) {
	if m.config.Disk == 0 || m.over {
		return
	}
	for began := time.Now(); ; began = time.Now() {
		used, err := disk.Used(ctx, m.most(), m.v.diskDirs()...)
		if err == nil && used > m.most() {
			defer m.v.interrupt()()
			<-ctx.Done()
			return
		}
		if !sleep(ctx, max(fillEvery, 2*time.Since(began))) {
			return
		}
	}
}

// group reads what the control group counted. The count outlives hutchd, so what
// was told is saved, lest the next one tell it again.
func (m *meter) group(ctx context.Context) {
	g := m.v.look().Group
	if g == nil {
		return
	}
	m.v.LastKilled()
	now := g.Events()
	if now.PIDs > m.told.PIDs {
		m.v.event(EventLimit, "pids: the machine may have no more processes on the host")
	}
	used := g.Used()
	m.v.change(func(s *seen) {
		now.OOM = s.Told.OOM // others tell of those, too
		s.Told, s.use.ram = now, used
	})
	if m.told != now {
		m.told = now
		m.post(ctx, m.v.keepMachine)
	}
}

// load asks the guest how many processes it has, while the machine is active,
// and whether commands run, where that matters. One that is too busy to answer
// soon is in use, and its answer is taken when it comes.
func (m *meter) load(ctx context.Context, now time.Time, active bool) {
	due := m.config.Idle > 0 && now.Sub(m.asked) >= min(m.config.Idle/idleParts, meterSeldom)
	if m.answer == nil && !due && !(m.counts && active) {
		return
	}
	m.asked = now
	if m.answer == nil {
		answer := make(chan guest.Load, 1)
		m.answer = answer
		m.asking.Go(func() {
			l, _ := m.guest.Load(ctx)
			answer <- l
		})
	}
	soon := time.NewTimer(meterEvery / 4)
	defer soon.Stop()
	select {
	case l := <-m.answer:
		m.answer = nil
		m.loaded(l)
	case <-soon.C:
		m.v.Use()
	case <-ctx.Done():
	}
}

func (m *meter) loaded(l guest.Load) {
	if l.Running > 0 {
		m.v.Use()
	}
	if !m.counts || l.Processes == 0 {
		return
	}
	m.v.change(func(s *seen) { s.use.processes = l.Processes })
	limit := m.config.PIDs
	switch {
	case l.Processes >= limit && !m.crowded:
		m.crowded = true
		m.v.event(EventLimit, fmt.Sprintf("pids: the guest has %d processes and threads, the limit is %d", l.Processes, limit))
	case l.Processes < limit*3/4:
		m.crowded = false
	}
}

// disk measures what the guest has written when half of what it had left may
// be used, and from time to time.
func (m *meter) disk(ctx context.Context) string {
	limit, now := m.config.Disk, time.Now()
	if limit == 0 || now.Before(m.next) {
		return ""
	}
	filled := disk.Filled(m.v.dir)
	if now.Sub(m.measured) < diskEvery && filled-m.filled < m.remaining/2 {
		return ""
	}
	used, err := disk.Used(ctx, m.most(), m.v.diskDirs()...)
	if err != nil {
		return ""
	}
	share := time.Duration(diskShare)
	if filled-m.filled > m.remaining { // it may be over already
		share = 1
	}
	m.measured, m.filled, m.remaining = now, filled, limit-used
	m.next = time.Now().Add(share * time.Since(now))
	m.v.t.fill.want(m.v.t.life, m, filled+max(0, m.remaining/2))
	m.v.change(func(s *seen) { s.use.disk = used })
	if used > limit {
		m.over = used > m.most()
		return diskText(used, limit)
	}
	return ""
}

// idle says whether the VM was not used for too long. The last use is written
// down now and then, for the hutchd that comes after this one.
func (m *meter) idle(ctx context.Context, now time.Time) string {
	limit := m.config.Idle
	if limit == 0 {
		return ""
	}
	if m.v.side.Busy() {
		m.v.Use()
	}
	last := m.v.lastUse()
	if now.Sub(last) >= limit {
		return "idle: it was not used for " + quantity.TimeText(limit)
	}
	if last.Sub(m.saved) >= limit/20 {
		m.saved = last
		m.post(ctx, m.v.keepMachine)
	}
	return ""
}

// Use notes that the VM is used, for idle.
func (v *VM) Use() { v.used.Store(time.Now().UnixNano()) }

// lastUse returns when the VM was used last, and no earlier than when it began.
func (v *VM) lastUse() time.Time {
	s := v.look()
	uses := []time.Time{s.Began, s.Used}
	if n := v.used.Load(); n != 0 {
		uses = append(uses, time.Unix(0, n))
	}
	if s.guest != nil {
		uses = append(uses, s.guest.Used())
	}
	return slices.MaxFunc(uses, time.Time.Compare)
}
