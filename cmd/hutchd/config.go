package main

import (
	"fmt"
	"hash/crc32"
	"path/filepath"
	"runtime"
	"slices"

	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/tree"
	"hutch/vmm"
	"hutch/vmm/cgroup"
	"hutch/vmm/gvisor"
	"hutch/vmm/qemu"
	"hutch/vmm/vz"
)

// groupName names the control group of the service with a state folder: there
// may be several services on a machine.
func groupName(state string) string {
	return fmt.Sprintf("hutch-%08x", crc32.ChecksumIEEE([]byte(state)))
}

// treeConfig says what the tree stands on, but for how it ends.
func treeConfig(o options, l *logs) tree.Config {
	return tree.Config{
		Config: sandbox.Config{
			State:   o.state,
			Drivers: drivers(o),
			Groups:  cgroup.Find(groupName(o.state)),
			Aggd:    filepath.Join(o.bin, "aggd"),
			Locald:  filepath.Join(o.bin, "locald"),
			Log:     l.log,
		},
		Level: l.level, ServiceLog: l.memory, CrashLog: l.crash,
		Listen: o.listen,
	}
}

// drivers returns what can run VMs, first what is the default here.
func drivers(o options) []vmm.Driver {
	list := []vmm.Driver{
		gvisor.New(gvisor.Config{
			Runsc: filepath.Join(o.bin, "runsc"),
			Guest: filepath.Join(o.bin, "guest"),
			Dir:   filepath.Join(o.state, "gvisor"),
		}),
		qemu.New(qemu.Config{
			Guest:   filepath.Join(o.bin, "guest"),
			Dir:     filepath.Join(o.state, "qemu"),
			Kernels: []string{filepath.Join(o.bin, "kernel"), "/"},
		}),
		vz.New(vz.Config{
			Guest:   filepath.Join(o.bin, "guest-linux"),
			Dir:     filepath.Join(o.state, "vz"),
			Kernels: []string{filepath.Join(o.bin, "kernel")},
		}),
	}
	if runtime.GOOS == "darwin" {
		slices.Reverse(list)
	}
	return list
}
