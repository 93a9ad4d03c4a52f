package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"

	"hutch/cmd/hutchd/telemetry"
	"hutch/cmd/hutchd/tree"
	"hutch/fs"
	"hutch/fs/fuse"
	"hutch/fs/ninep"
)

// A front serves a tree to clients: over 9P, and over FUSE if asked to.
type front struct {
	log   *slog.Logger
	ninep ninep.Server
	fuse  fuse.Counters

	mu     sync.Mutex // guards what follows
	mount  string     // where the tree is mounted, or none
	mounts []*fuse.Server
}

func newFront(log *slog.Logger) *front {
	f := &front{log: log, mount: "none"}
	f.ninep = ninep.Server{Log: log, MaxConns: maxConns(), Settle: f.settle}
	return f
}

// maxConns is how many 9P connections there may be: each is a descriptor, and
// guests and VMs need some as well.
func maxConns() int { return int(min(fs.Descriptors()/8, 1024)) }

// serve serves the tree of s until ctx is done, and says on standard output when it
// has begun to.
func (f *front) serve(ctx context.Context, o options, s *tree.Server) error {
	f.ninep.Root = s.Root()
	l, err := ninep.Listen(o.listen)
	if err != nil {
		return err
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		o.listen = fmt.Sprintf("tcp!%s!%d", a.IP, a.Port) // the port may have been 0
	}
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() { served <- f.ninep.Serve(ctx, l) }()
	defer func() {
		cancel()
		l.Close()
		<-served
	}()
	if o.mount != "none" {
		m, err := f.attach(o.mount, false, o, s)
		switch {
		case err == nil:
			defer m.Close()
		case o.mustMount:
			return err
		default:
			f.log.Warn("not mounted, serving 9P only; -mount none says so without a warning", "err", err)
			o.mount = "none"
		}
	}
	if o.rawMount != "" {
		m, err := f.attach(o.rawMount, true, o, s)
		if err != nil {
			return err
		}
		defer m.Close()
	}
	addProcessors()
	f.log.Info("serving", "listen", o.listen, "mount", o.mount, "state", o.state)
	fmt.Printf("ready %s %s\n", o.listen, o.mount)
	if err := tellReady(); err != nil {
		f.log.Warn("the service manager is not told", "err", err)
	}
	select {
	case <-ctx.Done():
		f.log.Info("ending")
		return nil
	case err := <-served:
		served <- err
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
}

// addProcessors gives the runtime two processors more than the library of FUSE has taken
// for its readers. When all are in system calls, the runtime has a thread look
// for work at each of them: small files cost a quarter more by that.
func addProcessors() { runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)) + 2) }

// tellReady has a service manager that waits for it know that the tree is
// served, as sd_notify(3).
func tellReady() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	os.Unsetenv("NOTIFY_SOCKET") // it is for no program that we start
	c, err := net.Dial("unixgram", path)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("READY=1"))
	return err
}

// attach mounts the tree of s on dir; raw, with the links of guests as they are.
func (f *front) attach(dir string, raw bool, o options, s *tree.Server) (*fuse.Server, error) {
	m, err := fuse.Mount(dir, s.Root(), fuse.Options{
		Name: "hutch", Log: slog.NewLogLogger(f.log.Handler(), slog.LevelInfo), Counters: &f.fuse,
		AllowOther: o.allowOther, RawLinks: raw,
		Locked: func(f fuse.HostFile) { s.Locked(f.Path, f.Dev, f.Ino) },
	})
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mounts = append(f.mounts, m)
	if !raw {
		f.mount = dir
	}
	return m, nil
}

// gone has the kernel forget a file that went.
func (f *front) gone(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.mounts {
		m.Gone(path)
	}
}

// settle waits until the mounts show what guests did so far.
func (f *front) settle() {
	f.mu.Lock()
	mounts := f.mounts
	f.mu.Unlock()
	for _, m := range mounts {
		m.Settle()
	}
}

// mounted returns where the tree is mounted, or none.
func (f *front) mounted() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mount
}

// metrics returns the frontends' counters.
func (f *front) metrics() []telemetry.Metric {
	n := &f.ninep.Counters
	metric := func(name string, kind telemetry.Kind, help string, value int64) telemetry.Metric {
		return telemetry.Metric{Name: name, Kind: kind, Help: help, Value: float64(value)}
	}
	return []telemetry.Metric{
		metric("hutch_9p_connections", telemetry.Gauge, "9P connections", n.Conns.Load()),
		metric("hutch_9p_fids", telemetry.Gauge, "9P fids in use", n.Fids.Load()),
		metric("hutch_9p_in_flight", telemetry.Gauge, "9P requests under way", n.InFlight.Load()),
		metric("hutch_9p_requests_total", telemetry.Counter, "9P requests", n.Requests.Load()),
		metric("hutch_9p_errors_total", telemetry.Counter, "9P requests answered with an error", n.Errors.Load()),
		metric("hutch_9p_read_bytes_total", telemetry.Counter, "bytes read over 9P", n.Read.Load()),
		metric("hutch_9p_written_bytes_total", telemetry.Counter, "bytes written over 9P", n.Written.Load()),
		metric("hutch_fuse_open", telemetry.Gauge, "files open over FUSE", f.fuse.Open.Load()),
		metric("hutch_fuse_waiting", telemetry.Gauge, "FUSE reads and writes under way", f.fuse.Waiting.Load()),
		metric("hutch_fuse_requests_total", telemetry.Counter, "FUSE requests for made-up files", f.fuse.Requests.Load()),
		metric("hutch_fuse_errors_total", telemetry.Counter, "FUSE requests answered with an error", f.fuse.Errors.Load()),
		metric("hutch_fuse_interrupted_total", telemetry.Counter, "FUSE requests given up by the client", f.fuse.Interrupted.Load()),
	}
}
