package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"hutch/aggd/egress"
	"hutch/fs"
	"hutch/fs/folder"
	"hutch/mcpd"
	"hutch/mcpd/ledger"
	"hutch/vmm"
)

// A vm is a VM as the tree has it: the machine, its MCP endpoint, its ledger
// and the execs that clients know.
type vm struct {
	*vmm.VM
	s   *Server
	id  uint64
	mcp *mcpd.Endpoint
	err lastErr

	aggLog lateFile // the aggregator's log

	ctx    context.Context // ends when the VM is removed or the service closes
	cancel context.CancelFunc
	work   work          // on the VM's behalf
	number atomic.Uint64 // of the last anonymous exec
	calls  atomic.Int64  // MCP calls that had begun when that was asked last

	mu       sync.Mutex // guards what follows, and the fields of execs that say so
	execs    map[string]*exec
	sessions map[string]*session
	folders  map[string]*folder.Folder // nil: the VM is gone
	refs     int

	arrivals arrivals // of the guest's connections; guarded by the crowd's mu

	telling sync.Mutex // held while the guest is told of env/; guards told
	told    told

	goingOut sync.Mutex // guards proxy
	proxy    *egress.Proxy

	repeats repeats // of what the guest does that is told

	ledgerMu sync.Mutex // guards what follows
	ledger   *ledger.DB
	secrets  []string // never to be written to it
	closed   bool
}

func vmVerbs() []verb {
	return []verb{
		{Name: "start", Max: 0, Do: startVM, Doc: "start the VM; returns when it runs"},
		{Name: "check", Max: 0, Do: checkVM, Doc: "say why it could not begin to start, as for an image or a folder that is not there"},
		{Name: "stop", Max: 0, Do: stopVM, Doc: "stop it in good order; returns when it stopped"},
		{Name: "kill", Max: 0, Do: killVM, Doc: "stop it at once"},
		{Name: "snap", Args: "NAME", Min: 1, Max: 1, Do: snapVM, Doc: "take a snapshot, as mkdir snap/NAME does"},
		{Name: "revert", Args: "NAME", Min: 1, Max: 1, Do: revertVM, Doc: "make workspace and layer what they were; a VM that runs starts anew"},
		{Name: "suspend", Max: 0, Do: suspendVM, Doc: "end its machine and keep the memory on the disk"},
		{Name: "resume", Max: 0, Do: resumeVM, Doc: "go on where it was suspended; returns when it runs"},
		{Name: "persist", Args: "NAME", Min: 1, Max: 1, Do: persistVM, Doc: "give an anonymous VM a name, under which it stays"},
		{Name: "fork", Args: "[-live] NAME", Min: 1, Max: 2, Do: forkVM, Doc: "make a stopped copy called NAME; -live: one that runs, with its memory"},
		{Name: "set", Args: "K V", Min: 2, Max: 2, Do: setVM, Doc: "change a line of config; while stopped"},
	}
}

func startVM(c call, _ []string) error { return c.At.vm.Start(c.Ctx) }
func checkVM(c call, _ []string) error { return c.At.vm.Check(c.Ctx) }
func killVM(c call, _ []string) error  { return c.At.vm.end(c, c.At.vm.Kill) }
func stopVM(c call, _ []string) error  { return c.At.vm.end(c, c.At.vm.Stop) }
func setVM(c call, args []string) error {
	return c.At.vm.Set(c.Ctx, args[0], args[1])
}

func resumeVM(c call, _ []string) error     { return c.At.vm.Resume(c.Ctx) }
func persistVM(c call, args []string) error { return c.At.vm.Persist(c.Ctx, args[0]) }

func forkVM(c call, args []string) error {
	switch {
	case len(args) == 1:
		return c.At.vm.Fork(c.Ctx, args[0])
	case args[0] == "-live":
		return c.At.vm.ForkLive(c.Ctx, args[1])
	}
	return fmt.Errorf("%w: fork %s: want \"fork [-live] NAME\"", fs.ErrInvalid, args[0])
}

// end stops the VM; an anonymous one goes with it.
func (v *vm) end(c call, stop func(context.Context) error) error {
	if err := stop(c.Ctx); err != nil {
		return err
	}
	if err := v.Discard(c.Ctx); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func vmName(c call) (string, error)   { return c.At.vm.Name() + "\n", nil }
func vmConfig(c call) (string, error) { return c.At.vm.ConfigText(), nil }

// vmStatus is what the VM says of itself, and who serves it.
func vmStatus(c call) (string, error) {
	text := c.At.vm.Status()
	text += c.At.vm.recordsLine()
	if pid := c.At.vm.mcp.AggregatorPID(); pid != 0 {
		text += fmt.Sprintf("aggregator %d\nsessions %d\n", pid, c.At.vm.mcp.Sessions())
	}
	if pid := c.At.vm.proxyPID(); pid != 0 {
		text += fmt.Sprintf("proxy %d\n", pid)
	}
	if why := c.At.vm.mcp.AggregatorTrouble(); why != "" {
		text += "aggregator down: " + strings.ReplaceAll(why, "\n", "; ") + "\n"
	}
	return text, nil
}

// storeConfig keeps a config as it was written. If it does not parse, the
// one before stays in force and err says why.
func storeConfig(c call, text string) error {
	if err := c.At.vm.SetConfig(c.Ctx, text); err != nil {
		if fs.Errno(err) != fs.Errno(fs.ErrInvalid) {
			return err
		}
		failed(c.At, err)
	}
	return nil
}

// configErr says why config as it was written does not count.
func configErr(c call) error { return c.At.vm.ConfigErr() }

func configReady(c call) error { return c.At.vm.Editable() }

func vmNames(c call) ([]string, error) {
	var names []string
	for _, v := range c.At.s.vms() {
		names = append(names, v.Name())
	}
	return names, nil
}

func enterVM(c call, name string) (at, error) {
	m, err := c.At.s.table.Lookup(name)
	if err != nil {
		return at{}, err
	}
	return at{s: c.At.s, vm: c.At.s.vm(m)}, nil
}

func makeVM(c call, name string) error {
	_, err := c.At.s.table.Make(c.Ctx, name)
	return err
}

func dropVM(c call, name string) error { return c.At.s.table.Remove(c.Ctx, name) }

// cloneVM makes an anonymous VM: the open file is its ctl.
func cloneVM(c call, flags int) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	m, err := c.At.s.table.MakeAnonymous(c.Ctx)
	if err != nil {
		return nil, err
	}
	return openClone(c, at{s: c.At.s, vm: c.At.s.vm(m)}, m.Name, vmVerbs()), nil
}

func openCons(c call, flags int) (fs.Handle, error) {
	g, err := c.At.vm.Guest()
	if err != nil {
		return nil, err
	}
	if err := c.At.vm.tellEnv(c.Ctx, g); err != nil {
		return nil, err
	}
	return g.Cons(c.Ctx, flags)
}

// guestRoot is empty while there is no guest.
func guestRoot(c call) (fs.Node, error) {
	g, err := c.At.vm.Guest()
	if err != nil {
		return nil, nil
	}
	return g.Root(), nil
}

// running says whether the VM has a machine that was not told to end.
func (v *vm) running() bool { return v.State() == vmm.Running || v.State() == vmm.Starting }

func vmLogPath(c call, name string) string {
	return filepath.Join(c.At.vm.Dir(), "log", name)
}

func vmLogSize(name string) func(call) uint64 {
	return func(c call) uint64 {
		fi, err := os.Stat(vmLogPath(c, name))
		if err != nil {
			return 0
		}
		return uint64(fi.Size())
	}
}

// vmLogFile opens a log that is a file of the host; one not yet begun is empty.
func vmLogFile(name string) func(call, int) (fs.Handle, error) {
	return func(c call, _ int) (fs.Handle, error) {
		f, err := os.Open(vmLogPath(c, name))
		if os.IsNotExist(err) {
			return fileHandle{}, nil
		}
		return fileHandle{f}, err
	}
}

// fileHandle is an open file of the host, to be read; nil is an empty one.
type fileHandle struct{ f *os.File }

func (h fileHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if h.f == nil {
		return 0, nil
	}
	n, _ := h.f.ReadAt(p, off)
	return n, nil
}

func (h fileHandle) WriteAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

func (h fileHandle) Close() error {
	if h.f == nil {
		return nil
	}
	return h.f.Close()
}
