package vmm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/vmm/process"
)

// Status returns the VM's state, then key value lines on it. It is made from
// what is known: what is measured is at most a second old, or older where
// measuring takes long.
func (v *VM) Status() string {
	s := v.look()
	c := v.t.effective(s.config).Config
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s %s\n", key, value)
		}
	}
	fmt.Fprintln(&b, s.State)
	line("reason", strings.ReplaceAll(s.Reason, "\n", "; "))
	if !s.Since.IsZero() {
		line("since", s.Since.UTC().Format(time.RFC3339Nano))
	}
	if v.Anonymous() {
		line("anonymous", "yes")
	}
	line("image", c.Image)
	line("profile", c.Profile)
	line("driver", c.Driver)
	line("net", c.Net)
	b.WriteString(v.limits(s, c))
	b.WriteString(v.programLines(s))
	if s.State == Suspended {
		line("saved", mib(s.Saved))
	}
	line("unconfirmed", strings.Join(s.Unconfirmed, " "))
	if s.bad != "" {
		line("config", "last edit refused, see err")
	}
	if s.State.alive() && len(s.pids) > 0 {
		wake(v.asked)
		line("pid", strconv.Itoa(s.pids[0]))
		line("uptime", time.Since(s.Since).Round(time.Second).String())
		if m := v.measured(s); m.bytes > 0 {
			line("memory", mib(m.bytes))
			line("cpu", m.cpu.Round(10*time.Millisecond).String())
		}
	}
	return b.String()
}

// memory is what a machine's processes held at a time, and the processor time
// that they had had.
type memory struct {
	at    time.Time
	bytes int64
	cpu   time.Duration
	under chan struct{} // closed when a measurement is done that is under way; nil: none is
}

// measured returns the memory and the time of the VM's processes. They are
// measured anew if that was not done within the last second, and waited for,
// but not long: a process that is stuck keeps nobody from a status.
func (v *VM) measured(s seen) memory {
	if time.Since(s.mem.at) < time.Second {
		return s.mem
	}
	select {
	case <-v.measure(s.pids):
	case <-time.After(v.t.cfg.MeasureLimit):
	}
	return v.look().mem
}

// measure has the VM's processes measured in the background, unless that is
// under way, and returns what is closed when it is done.
func (v *VM) measure(pids []int) <-chan struct{} {
	done, begin := make(chan struct{}), false
	v.change(func(s *seen) {
		if begin = s.mem.under == nil; begin {
			s.mem.under = done
		}
		done = s.mem.under
	})
	if !begin {
		return done
	}
	v.t.background(func() {
		defer close(done)
		pids := slices.Clone(pids)
		for _, pid := range v.side.Helpers() {
			pids = append(append(pids, pid), process.Children(pid)...)
		}
		n, cpu := process.Memory(pids), process.Time(pids)
		v.change(func(now *seen) {
			if now.mem.under == done { // the machine has not ended meanwhile
				now.mem = memory{at: time.Now(), bytes: n, cpu: cpu}
			}
		})
	})
	return done
}
