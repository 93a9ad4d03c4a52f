package tree

import (
	"context"
	"syscall"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
)

func tcpVerbs() []verb {
	pass := func(name, args string, words int, doc string) verb {
		return verb{Name: name, Args: args, Min: words, Max: words, Doc: doc, Do: func(c call, args []string) error {
			return c.At.tcp.Ctl(c.Ctx, message(name, args))
		}}
	}
	return []verb{
		pass("connect", "[ADDR!]PORT", 1, "connect to a port inside the VM; returns when it is, or fails with the reason"),
		pass("eof", "", 0, "end what is sent: the other side reads its end, and can still answer"),
		pass("hangup", "", 0, "end the connection"),
	}
}

func tcpName(c call) (string, error)   { return c.At.tcp.Name + "\n", nil }
func tcpStatus(c call) (string, error) { return c.At.tcp.Status(c.Ctx) }

func openTCP(c call, flags int) (fs.Handle, error) {
	return &tcpHandle{t: c.At.tcp, nonblock: flags&syscall.O_NONBLOCK != 0}, nil
}

// A tcpHandle is an open data file of a connection. It has no places: what a read
// has returned no other returns again, whichever handle it is of.
type tcpHandle struct {
	fs.MadeUp
	t        *sandbox.TCP
	nonblock bool
}

func (h *tcpHandle) Stream() bool { return true }

func (h *tcpHandle) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.t.Read(ctx, p, h.nonblock)
}

func (h *tcpHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.t.Write(ctx, p)
}

func tcpNames(c call) ([]string, error) { return c.At.vm.TCPs(), nil }

func enterTCP(c call, name string) (at, error) {
	t, err := c.At.vm.TCP(name)
	return at{s: c.At.s, vm: c.At.vm, gw: c.At.gw, tcp: t}, err
}

func makeTCP(c call, name string) error {
	if err := fs.CheckWord("connection", name); err != nil {
		return err
	}
	_, err := c.At.vm.MakeTCP(c.Ctx, name)
	return err
}

func dropTCP(c call, name string) error {
	t, err := c.At.vm.TCP(name)
	if err == nil {
		t.Drop()
	}
	return err
}

// cloneTCP makes an anonymous connection: the open file is its ctl.
func cloneTCP(c call, flags int) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	t, err := c.At.vm.MakeAnonymousTCP(c.Ctx)
	if err != nil {
		return nil, err
	}
	return openClone(at{s: c.At.s, vm: c.At.vm, gw: c.At.gw, tcp: t}, func() string { return t.Name }, tcpVerbs()), nil
}
