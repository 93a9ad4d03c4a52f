package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"hutch/fs"
	"hutch/fs/accept"
)

// A mapping is where connections come in, and the port in the VM that they
// lead to.
type mapping struct{ listen, port string }

// parseMapping takes [ADDR:]HOSTPORT:GUESTPORT, as docker does, or PORT for both.
func parseMapping(text string) (mapping, error) {
	addr, port := "", text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		addr, port = text[:i], text[i+1:]
	} else {
		addr = port
	}
	if !strings.Contains(addr, ":") {
		addr = "127.0.0.1:" + addr
	}
	host, hostPort, err := net.SplitHostPort(addr)
	_, err1 := strconv.ParseUint(hostPort, 10, 16)
	n, err2 := strconv.ParseUint(port, 10, 16)
	if err = errors.Join(err, err1, err2); err != nil || host == "" || n == 0 {
		return mapping{}, fmt.Errorf("%q: want [ADDR:]PORT:PORT, the port here and that in the VM, or one PORT for both", text)
	}
	return mapping{addr, port}, nil
}

const (
	// mostForwarded is how many connections lead into the VM at once: it has no
	// more. Others wait to be accepted.
	mostForwarded = 256
	forwardBuffer = 64 << 10 // of each direction of a connection
)

// A forwarder carries connections into a VM.
type forwarder struct {
	c     *tree
	dir   string // of the VM
	end   context.CancelCauseFunc
	slots chan struct{} // holds a token for each connection
	work  sync.WaitGroup

	mu   sync.Mutex // guards what follows
	told string     // why the last connection could not be made, if it could not
}

func newForwarder(c *tree, vm string, end context.CancelCauseFunc) *forwarder {
	return &forwarder{c: c, dir: vm, end: end, slots: make(chan struct{}, mostForwarded)}
}

// forward has ports of the host lead to ports in a VM, until it is interrupted.
func forward(ctx context.Context, c *tree, args []string) error {
	vm, err := vmDir(args[0])
	if err != nil {
		return err
	}
	var mappings []mapping
	for _, text := range args[1:] {
		m, err := parseMapping(text)
		if err != nil {
			return misused("forward", err.Error())
		}
		mappings = append(mappings, m)
	}
	if err := mustRun(c, args[0]); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f := newForwarder(c, vm, cancel)
	defer f.work.Wait()
	defer cancel(nil)
	listeners, err := listen(mappings)
	if err != nil {
		return err
	}
	for i, l := range listeners {
		fmt.Printf("%s to port %s of vm %s\n", l.Addr(), mappings[i].port, args[0])
		f.serve(ctx, l, mappings[i].port)
	}
	f.work.Go(func() { f.watch(ctx) })
	<-ctx.Done()
	return context.Cause(ctx)
}

// listen listens where mappings say, at all of it or none.
func listen(mappings []mapping) (list []net.Listener, err error) {
	for _, m := range mappings {
		l, err := net.Listen("tcp", m.listen)
		if err != nil {
			for _, l := range list {
				l.Close()
			}
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// serve has what comes in on l lead to a port in the VM, until ctx is done.
func (f *forwarder) serve(ctx context.Context, l net.Listener, port string) {
	f.work.Go(func() {
		f.end(accept.Serve(ctx, l, func(conn net.Conn) { f.take(ctx, conn, port) }, f.say))
	})
}

// watch ends all when there is no service or no VM any more.
func (f *forwarder) watch(ctx context.Context) {
	err := copyFile(ctx, f.c, io.Discard, path.Join(f.dir, "events"), os.O_RDONLY)
	if errors.Is(err, errLost) {
		err = verdict{"connection to hutchd lost, and with it those that were forwarded", 125, nil}
	} else {
		err = fmt.Errorf("%w: %s is gone", fs.ErrNotExist, strings.Replace(f.dir, "/", " ", 1))
	}
	f.end(err)
}

// take carries a connection, as soon as there is room for it.
func (f *forwarder) take(ctx context.Context, conn net.Conn, port string) {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		conn.Close()
		return
	}
	f.work.Go(func() {
		defer func() { <-f.slots }()
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		if err := f.carry(conn.(*net.TCPConn), port); ctx.Err() == nil {
			f.say(err)
		}
	})
}

// say tells why a connection cannot be made, once for the same reason; nil: one
// could.
func (f *forwarder) say(err error) {
	text := ""
	if err != nil {
		text = plainText(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if text != "" && text != f.told {
		fmt.Fprintln(os.Stderr, "hutch:", text)
	}
	f.told = text
}

// carry makes the connection in the VM and passes bytes both ways, and each end
// on to the other side, until both have ended or one is lost. The error is that
// of making it.
func (f *forwarder) carry(conn *net.TCPConn, port string) error {
	tcp := path.Join(f.dir, "net/tcp")
	ctl, n, err := clone(f.c, tcp)
	if err != nil {
		return err
	}
	defer ctl.Close()
	if err := tell(ctl, "connect "+port); err != nil {
		return err
	}
	data, err := f.c.open(path.Join(tcp, n, "data"), os.O_RDWR)
	if err != nil {
		return err
	}
	defer data.Close()
	f.say(nil)
	var up sync.WaitGroup
	up.Go(func() {
		if copyAll(io.NewOffsetWriter(data, 0), conn) != nil || tell(ctl, "eof") != nil {
			tell(ctl, "hangup")
		}
	})
	err = copyAll(conn, io.NewSectionReader(data, 0, 1<<62))
	if err != nil { // as a reset by the server is
		conn.SetLinger(0)
	}
	if err != nil || conn.CloseWrite() != nil {
		tell(ctl, "hangup")
		conn.Close()
	}
	up.Wait()
	return nil
}

// copyAll copies by reads and writes alone, of the same size each: what a short
// read of a stream leaves is asked for anew.
func copyAll(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, forwardBuffer))
	return err
}
