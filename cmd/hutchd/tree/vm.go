package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/workload"
	"hutch/fs"
	"hutch/profiles/runconfig"
)

func vmVerbs() []verb {
	return []verb{
		{Name: "start", Max: 0, Do: startVM, Doc: "start the VM; returns when it runs"},
		{Name: "check", Max: 0, Do: checkVM, Doc: "say why it could not begin to start, as for an image, a folder or what the driver needs that is not there"},
		{Name: "stop", Max: 0, Do: stopVM, Doc: "stop it in good order; returns when it stopped"},
		{Name: "kill", Max: 0, Do: killVM, Doc: "stop it at once"},
		{Name: "snap", Args: "NAME", Min: 1, Max: 1, Do: snapVM, Doc: "take a snapshot, as mkdir snap/NAME does"},
		{Name: "revert", Args: "NAME", Min: 1, Max: 1, Do: revertVM, Doc: "make workspace and layer what they were; a VM that runs starts anew"},
		{Name: "undo", Args: "ID", Min: 1, Max: 1, Do: undoVM, Doc: "make the workspace what it was before a call or command, while the VM runs; undo has what can be"},
		{Name: "suspend", Max: 0, Do: suspendVM, Doc: "end its machine and keep the memory on the disk"},
		{Name: "resume", Max: 0, Do: resumeVM, Doc: "go on where it was suspended; returns when it runs"},
		{Name: "persist", Args: "NAME", Min: 1, Max: 1, Do: persistVM, Doc: "give an anonymous VM a name, under which it stays"},
		{Name: "fork", Args: "[-live] NAME", Min: 1, Max: 2, Do: forkVM, Doc: "make a stopped copy called NAME; -live: one that runs, with its memory"},
		{Name: "set", Args: "K V…", Min: 2, Max: -1, Do: setVM, Doc: "change a line of config; while stopped"},
		{Name: "confirm", Max: 0, Do: confirmVM, Doc: "let a VM have what its archive says of profile, net, mount and kernel"},
	}
}

func confirmVM(c call, _ []string) error { return c.At.vm.Confirm(c.Ctx) }
func startVM(c call, _ []string) error   { return c.At.vm.Start(c.Ctx) }
func checkVM(c call, _ []string) error   { return c.At.vm.Check(c.Ctx) }
func stopVM(c call, _ []string) error    { return c.At.vm.Stop(c.Ctx) }
func killVM(c call, _ []string) error    { return c.At.vm.Kill(c.Ctx) }

func suspendVM(c call, _ []string) error { return c.At.vm.Suspend(c.Ctx) }
func resumeVM(c call, _ []string) error  { return c.At.vm.Resume(c.Ctx) }
func persistVM(c call, args []string) error {
	if err := workload.CheckVM(args[0]); err != nil {
		return err
	}
	return c.At.vm.Persist(c.Ctx, args[0])
}

func setVM(c call, args []string) error {
	return c.At.vm.Set(c.Ctx, args[0], strings.Join(args[1:], " "))
}

func forkVM(c call, args []string) error {
	if err := workload.CheckVM(args[len(args)-1]); err != nil {
		return err
	}
	switch {
	case len(args) == 1:
		return c.At.vm.Fork(c.Ctx, args[0])
	case args[0] == "-live":
		return c.At.vm.ForkLive(c.Ctx, args[1])
	}
	return fmt.Errorf("%w: fork %s: want \"fork [-live] NAME\"", fs.ErrInvalid, args[0])
}

func vmName(c call) (string, error) { return c.At.vm.Name() + "\n", nil }
func vmStatus(c call) (string, error) {
	text := c.At.vm.Status()
	if owner := workload.Owner(c.At.vm.Config().Profile); owner != "" {
		text += "owner " + owner + "\n"
	}
	return shownTo(c.Who, text), nil
}

// shownTo returns what of a status who asks may see: others than hutchd's user and root see
// the state and since when it is so. The rest tells of what was said and done.
func shownTo(who fs.Principal, status string) string {
	if who.UID == fs.NoUID || who.UID == 0 || who.UID == uint32(os.Getuid()) {
		return status
	}
	state, rest, _ := strings.Cut(status, "\n")
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "since ") {
			return state + "\n" + line
		}
	}
	return state + "\n"
}

func vmConfig(c call) (string, error) { return c.At.vm.ConfigText(), nil }

// stored has a config be kept as it was written, unless it may hold a secret. If it does
// not count, the one before stays in force and err says why.
func stored(set func(c call, text string) error) func(call, string) error {
	return func(c call, text string) error {
		err := set(c, text)
		if fs.Is(err, fs.ErrInvalid) && !errors.Is(err, runconfig.ErrSecret) {
			failed(c.At, err)
			return nil
		}
		return err
	}
}

func setConfig(c call, text string) error { return c.At.vm.SetConfig(c.Ctx, text) }

// configErr says why config as it was written does not count.
func configErr(c call) error { return c.At.vm.ConfigErr() }

func configReady(c call) error { return c.At.vm.Editable() }

func vmNames(c call) ([]string, error) {
	var names []string
	for _, v := range c.At.s.List() {
		names = append(names, v.Name())
	}
	return names, nil
}

func enterVM(c call, name string) (at, error) {
	v, err := c.At.s.Lookup(name)
	if err != nil {
		return at{}, err
	}
	return atVM(c.At.s, v), nil
}

func atVM(s *Server, v *sandbox.Sandbox) at { return at{s: s, vm: v, gw: v.Gateway} }

func makeVM(c call, name string) error {
	if err := workload.CheckVM(name); err != nil {
		return err
	}
	_, err := c.At.s.Make(c.Ctx, name)
	return err
}

func dropVM(c call, name string) error { return c.At.s.Remove(c.Ctx, name) }

// cloneVM makes an anonymous VM: the open file is its ctl.
func cloneVM(c call, flags int) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	v, err := c.At.s.MakeAnonymous(c.Ctx)
	if err != nil {
		return nil, err
	}
	return openClone(atVM(c.At.s, v), v.Name, vmVerbs()), nil
}

func openCons(c call, flags int) (fs.Handle, error) { return c.At.vm.Cons(c.Ctx, flags) }

// guestRoot is empty while there is no guest.
func guestRoot(c call) (fs.Node, error) {
	g, err := c.At.vm.Guest()
	if err != nil {
		return nil, nil
	}
	return g.RootKeeping(c.At.vm.Mounted), nil
}

func logPath(c call, name string) string {
	return filepath.Join(c.At.gw.Folder(), "log", name)
}

func logSize(name string) func(call) uint64 {
	return func(c call) uint64 {
		fi, err := os.Stat(logPath(c, name))
		if err != nil {
			return 0
		}
		return uint64(fi.Size())
	}
}

// logFile opens a log that is a file of the host; one not yet begun is empty.
func logFile(name string) func(call, int) (fs.Handle, error) {
	return func(c call, _ int) (fs.Handle, error) {
		f, err := os.Open(logPath(c, name))
		if os.IsNotExist(err) {
			f, err = os.Open(os.DevNull)
		}
		return fileHandle{f: f}, err
	}
}

// fileHandle is an open file of the host, to be read.
type fileHandle struct {
	fs.MadeUp
	f *os.File
}

func (h fileHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	n, err := h.f.ReadAt(p, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (h fileHandle) Close() error { return h.f.Close() }
