package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"hutch/aggd/confine"
	"hutch/cmd/hutchd/doctor"
	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/telemetry"
	"hutch/cmd/hutchd/tree"
	"hutch/fs/ninep"
	"hutch/vmm"
	"hutch/vmm/cgroup"
	"hutch/vmm/gvisor"
	"hutch/vmm/own"
	"hutch/vmm/qemu"
	"hutch/vmm/vz"
)

// serve runs the service until ctx is done. On the way out the mount goes
// first, so that no new work comes from there, then the 9P connections, then
// the tree with the anonymous VMs.
func serve(ctx context.Context, o options) error {
	ctx, shutdown := context.WithCancel(ctx)
	defer shutdown()
	lacks := confine.Lacking()
	if o.strict && len(lacks) > 0 {
		return fmt.Errorf("this machine cannot confine the network's processes: %s", strings.Join(lacks, "; "))
	}
	state, err := filepath.Abs(o.state)
	if err != nil {
		return err
	}
	o.state = state
	if err := os.MkdirAll(filepath.Join(o.state, "log"), 0o700); err != nil {
		return err
	}
	lock, err := lockState(ctx, o.state)
	if err != nil {
		return err
	}
	defer lock.Close()
	// When ctx is done the lock says so. What is deferred is the stop function
	// that AfterFunc returns, for a lock that is closed before that.
	defer context.AfterFunc(ctx, func() { tellEnding(lock) })()
	l := openLogs(o)
	defer l.close()

	for _, lack := range lacks {
		l.log.Warn("not all that confines the network's processes is here", "without", lack)
	}
	told := telemetry.New(l.log)
	if err := told.Send(ctx); err != nil {
		l.log.Warn("no telemetry leaves", "err", err)
	}
	defer told.Close()
	f := newFront(l.log)
	told.Add(f.metrics)
	cfg := treeConfig(o, l)
	cfg.Telemetry, cfg.Shutdown, cfg.Mount, cfg.Gone = told, shutdown, f.mounted, f.gone
	s, err := tree.New(cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			l.log.Error("not closed in order", "err", err)
		}
	}()
	return f.serve(ctx, o, s)
}

// groupName names the control group of the service with a state folder: there
// may be several services on a machine.
func groupName(state string) string {
	return fmt.Sprintf("hutch-%08x", crc32.ChecksumIEEE([]byte(state)))
}

// treeConfig says what the tree stands on, but for how it ends.
func treeConfig(o options, l *logs) tree.Config {
	home, _ := os.UserHomeDir()
	program, _ := os.Executable()
	groups, list := cgroup.Find(groupName(o.state)), drivers(o)
	return tree.Config{
		Config: sandbox.Config{
			State:   o.state,
			Corp:    o.corp,
			Home:    home,
			Own:     owned(o, program),
			Drivers: list,
			Groups:  groups,

			RequireLimits: o.requireLimits,

			Aggd:   filepath.Join(o.bin, "aggd"),
			Locald: filepath.Join(o.bin, "locald"),
			Log:    l.log,
		},
		Level: l.level, ServiceLog: l.memory, CrashLog: l.crash,
		Listen: o.listen,
		Doctor: func(ctx context.Context) string {
			text, _ := doctor.Report(ctx, machine(o, list, groups))
			return text
		},
		Hutch: filepath.Join(filepath.Dir(program), "hutch"),
	}
}

// owned returns what controls the service, beside its state. Whoever has the socket, or can
// write the programs, the units that start them or what corp says, can do what hutchd can.
func owned(o options, program string) []own.Item {
	list := []own.Item{
		{What: "the programs of hutchd", Path: o.bin, Readable: true},
		{What: "the programs of hutchd", Path: filepath.Dir(program), Readable: true},
	}
	for _, name := range []string{"kernel", "guest", "guest-linux", "runsc", "aggd", "locald", "hutch"} {
		path := filepath.Join(o.bin, name)
		if _, err := os.Readlink(path); err == nil { // what it leads to counts
			list = append(list, own.Item{What: "the programs of hutchd", Path: path, Readable: true})
		}
	}
	if network, path, err := ninep.SplitAddr(o.listen); err == nil && network == "unix" {
		list = append(list, own.Item{What: "the socket of hutchd", Path: path})
	}
	if o.corp != "" {
		list = append(list, own.Item{What: "what corp says of profiles", Path: o.corp, Readable: true})
	}
	for _, dir := range unitFolders() {
		list = append(list, own.Item{What: "what systemd starts", Path: dir, Readable: true})
	}
	for i := range list {
		if path, err := filepath.Abs(list[i].Path); err == nil {
			list[i].Path = path
		}
	}
	return list
}

// unitFolders returns the folders in which systemd looks for units of ours, see
// systemd.unit(5).
func unitFolders() []string {
	kind, all := "user", []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd", "/usr/local/share/systemd", "/usr/share/systemd"}
	if os.Getuid() == 0 {
		kind = "system"
	} else if home, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(xdg("XDG_CONFIG_HOME", filepath.Join(home, ".config")), "systemd"),
			filepath.Join(xdg("XDG_DATA_HOME", filepath.Join(home, ".local", "share")), "systemd"))
	}
	for i := range all {
		all[i] = filepath.Join(all[i], kind)
	}
	return all
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
