package main

import (
	"context"
	"flag"
	"path"
	"strings"
	"time"
)

// A taken is what a VM takes.
type taken struct {
	VM        string `json:"vm"`
	CPU       string `json:"cpu,omitempty"` // percent of one, lately
	Memory    string `json:"memory,omitempty"`
	Disk      string `json:"disk,omitempty"`
	Processes string `json:"pids,omitempty"`
	Uptime    string `json:"uptime,omitempty"`
}

// statsTime is for how long the use of processors is looked at.
const statsTime = 2 * time.Second

// defineStats has the command that tells what the VMs that run take.
func defineStats(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return connected(func(ctx context.Context, c *tree, vms []string) error {
		for _, vm := range vms {
			if err := mustRun(c, vm); err != nil {
				return err
			}
		}
		if len(vms) == 0 {
			var err error
			if vms, err = folders(c, "vm"); err != nil {
				return err
			}
		}
		began, before := time.Now(), running(c, vms)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(statsTime):
		}
		now := running(c, vms)
		t := newTable(*asJSON, "VM", "CPU", "MEMORY", "DISK", "PIDS", "UPTIME")
		for i, status := range now {
			if status == nil {
				continue
			}
			u := taken{VM: vms[i], Uptime: status["uptime"], Disk: withoutHow(status["disk"]), Processes: withoutHow(status["pids"])}
			memory, limit := memoryOf(status["memory"], status["ram"])
			_, why, _ := strings.Cut(status["ram"], unheld)
			u.Memory = memoryCell(memory, limit, why)
			u.CPU = percent(spent(before[i]["cpu"], status["cpu"]), began.Format(time.RFC3339Nano), time.Now())
			if err := t.row(u, u.VM, u.CPU, u.Memory, u.Disk, u.Processes, u.Uptime); err != nil {
				return err
			}
		}
		return t.flush()
	})
}

// running returns the status of each VM, nil for those that do not run.
func running(c *tree, vms []string) []map[string]string {
	list := make([]map[string]string, len(vms))
	for i, vm := range vms {
		text, err := readFile(c, path.Join("vm", vm, "status"))
		if err == nil && strings.HasPrefix(text, "running\n") {
			list[i] = pairs(text)
		}
	}
	return list
}

// withoutHow returns a line of limits without what enforces it: "10 of 512" of "10 of 512 by
// gvisor".
func withoutHow(limit string) string {
	limit, _, _ = strings.Cut(limit, " by ")
	limit, _, _ = strings.Cut(limit, unheld)
	return limit
}

// spent returns the time from one total to a later one, which may have begun anew.
func spent(before, now string) string {
	b, err := time.ParseDuration(before)
	n, nerr := time.ParseDuration(now)
	if err != nil || nerr != nil || n < b {
		return now
	}
	return (n - b).String()
}
