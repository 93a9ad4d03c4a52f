package main

import (
	"cmp"
	"context"
	"flag"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// A taken is what a VM takes.
type taken struct {
	VM        string `json:"vm"`
	CPU       string `json:"cpu,omitempty"` // percent of one, lately
	Memory    string `json:"memory,omitempty"`
	RAM       string `json:"ram,omitempty"` // its limit
	Disk      string `json:"disk,omitempty"`
	Processes string `json:"pids,omitempty"`
	Uptime    string `json:"uptime,omitempty"`
}

// statsTime is for how long the use of processors is looked at.
const statsTime = 2 * time.Second

// defineStats has the command that tells what the VMs that run take.
func defineStats(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	follow := flags.Bool("f", false, "tell it again and again, until interrupted")
	return connected(func(ctx context.Context, c *tree, vms []string) error {
		for _, vm := range vms {
			if err := mustRun(c, vm); err != nil {
				return err
			}
		}
		before, err := uses(c, vms)
		for err == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(statsTime):
			}
			var now map[string]use
			if now, err = uses(c, vms); err == nil {
				err = printStats(before, now, *asJSON)
			}
			if before = now; !*follow {
				return err
			}
		}
		return err
	})
}

// A use is what a VM's status says at a time.
type use struct {
	at     time.Time
	status map[string]string
}

// uses returns what is said of those VMs that run, or of all if none are named.
func uses(c *tree, vms []string) (map[string]use, error) {
	if len(vms) == 0 {
		var err error
		if vms, err = folders(c, "vm"); err != nil {
			return nil, err
		}
	}
	all := map[string]use{}
	for _, vm := range vms {
		text, err := readFile(c, path.Join("vm", vm, "status"))
		if err == nil && strings.HasPrefix(text, "running\n") {
			all[vm] = use{time.Now(), pairs(text)}
		}
	}
	return all, nil
}

func printStats(before, now map[string]use, asJSON bool) error {
	t := newTable(asJSON, "VM", "CPU", "MEMORY", "DISK", "PIDS", "UPTIME")
	for _, vm := range slices.Sorted(maps.Keys(now)) {
		n := now[vm]
		u := taken{VM: vm, Uptime: n.status["uptime"], Disk: withoutHow(n.status["disk"]), Processes: withoutHow(n.status["pids"])}
		u.Memory, u.RAM = memoryOf(n.status["memory"], n.status["ram"])
		if b, ok := before[vm]; ok {
			u.CPU = percent(spent(b.status["cpu"], n.status["cpu"]), b.at.Format(time.RFC3339Nano), n.at)
		}
		memory := u.Memory
		if u.RAM != "" {
			memory = cmp.Or(memory, "-") + " / " + u.RAM
		}
		if err := t.row(u, vm, u.CPU, memory, strings.Replace(u.Disk, " of ", " / ", 1), strings.Replace(u.Processes, " of ", " / ", 1), u.Uptime); err != nil {
			return err
		}
	}
	return t.flush()
}

// withoutHow returns what is used and may be of a line of limits, as "10 of 512 by gvisor"
// has it.
func withoutHow(limit string) string {
	limit, _, _ = strings.Cut(limit, " by ")
	limit, _, _ = strings.Cut(limit, " not enforced")
	return limit
}

// spent returns the time from one total to a later one; that one if it began anew.
func spent(before, now string) string {
	b, err := time.ParseDuration(before)
	n, nerr := time.ParseDuration(now)
	if err != nil || nerr != nil || n < b {
		return now
	}
	return (n - b).String()
}
