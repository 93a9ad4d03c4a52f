package main

import (
	"path/filepath"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/gvisor"
	"hutch/vmm/qemu"
)

// config says what the tree stands on, but for how it ends.
func config(o options, l *logs) fs.Config {
	return fs.Config{
		State: o.state,
		Drivers: []vmm.Driver{
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
		},
		Aggd:   filepath.Join(o.bin, "aggd"),
		Locald: filepath.Join(o.bin, "locald"),
		Log:    l.log, Level: l.level, ServiceLog: l.memory, CrashLog: l.crash,
		Listen: o.listen,
	}
}
