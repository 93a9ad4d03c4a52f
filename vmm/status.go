package vmm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status returns the VM's state, then key value lines on it. It is made from
// what is known: what is measured is at most a second old, or older where
// measuring takes long.
func (v *VM) Status() string {
	s := v.look()
	c := v.t.effective(s.config)
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
	b.WriteString(v.kept(s))
	if s.State == Suspended {
		line("saved", mib(s.Saved))
	}
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
		if h := v.t.cfg.Hooks.PIDs; h != nil {
			pids = slices.Concat(pids, families(h(v)))
		}
		n, cpu := Memory(pids), processorTime(pids)
		v.change(func(now *seen) {
			if now.mem.under == done { // the machine has not ended meanwhile
				now.mem = memory{at: time.Now(), bytes: n, cpu: cpu}
			}
		})
	})
	return done
}

// Memory returns the bytes that processes hold, each shared page counted in
// parts where the system tells, and whole where it does not.
func Memory(pids []int) int64 {
	var sum int64
	for _, pid := range pids {
		n := field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		if n == 0 {
			n = field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
		}
		sum += n
	}
	return sum << 10
}

// processorTime returns what processes that run have had of processors, and
// those children of theirs that have ended.
func processorTime(pids []int) time.Duration {
	const tick = 10 * time.Millisecond // of /proc, on every Linux that there is
	var sum time.Duration
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ") // the name may have blanks in it
		words := strings.Fields(rest)
		if len(words) < 15 {
			continue
		}
		for _, w := range words[11:15] {
			n, _ := strconv.ParseInt(w, 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// families returns pids with all that descend from them.
func families(pids []int) []int {
	for i := 0; i < len(pids); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// field returns the number after name in a file of lines like "Pss: 12 kB".
func field(path, name string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n
		}
	}
	return 0
}
