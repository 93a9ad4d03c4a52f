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
// memory: what is measured is measured in the background and a second old.
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
	if s.State == Suspended {
		line("saved", mib(s.Saved))
	}
	if s.bad != "" {
		line("config", "last edit refused, see err")
	}
	if s.State.alive() && len(s.pids) > 0 {
		line("pid", strconv.Itoa(s.pids[0]))
		line("uptime", time.Since(s.Since).Round(time.Second).String())
		v.measure(s)
		if s.mem.bytes > 0 {
			line("memory", mib(s.mem.bytes))
		}
	}
	return b.String()
}

// memory is what a machine's processes held at a time.
type memory struct {
	at    time.Time
	bytes int64
	under bool // being measured
}

// measure has the memory of the VM's processes measured in the background,
// unless that was done within the last second.
func (v *VM) measure(s seen) {
	if s.mem.under || time.Since(s.mem.at) < time.Second {
		return
	}
	begin := false
	v.change(func(s *seen) {
		if !s.mem.under {
			s.mem.under, begin = true, true
		}
	})
	if !begin {
		return
	}
	v.t.background(func() {
		pids := s.pids
		if h := v.t.cfg.Hooks.PIDs; h != nil {
			pids = slices.Concat(pids, families(h(v)))
		}
		n := Memory(pids)
		v.change(func(now *seen) {
			if len(now.pids) > 0 {
				now.mem = memory{at: time.Now(), bytes: n}
			} else {
				now.mem = memory{}
			}
		})
	})
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
