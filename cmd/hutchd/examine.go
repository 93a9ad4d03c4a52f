package main

import (
	"context"
	"fmt"
	"os"

	"hutch/aggd/confine"
	"hutch/cmd/hutchd/doctor"
	"hutch/vmm"
	"hutch/vmm/cgroup"
)

// machine is what doctor looks at.
func machine(o options, list []vmm.Driver, groups *cgroup.Root) doctor.Machine {
	return doctor.Machine{State: o.state, Bin: o.bin, Drivers: list, Groups: groups, Lacking: confine.Lacking()}
}

// examine prints what doctor says where no service runs, and reports whether one could.
func examine(ctx context.Context, o options) bool {
	scratch, err := os.MkdirTemp("", "hutchd-") // where drivers try what they can
	if err != nil {
		fmt.Fprintf(os.Stderr, "hutchd: %v\n", err)
		return false
	}
	defer os.RemoveAll(scratch)
	trial := o
	trial.state = scratch
	text, sound := doctor.Report(ctx, machine(o, drivers(trial), cgroup.Find(groupName(scratch))))
	fmt.Print(text)
	return sound
}
