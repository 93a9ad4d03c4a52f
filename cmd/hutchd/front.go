package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"hutch/fs"
	"hutch/fs/fuse"
	"hutch/fs/ninep"
)

// A front serves a tree to clients: over 9P, and over FUSE if asked to.
type front struct {
	log   *slog.Logger
	ninep ninep.Server
	fuse  fuse.Counters
	mount atomic.Value // string: where the tree is mounted
}

func newFront(log *slog.Logger) *front { return &front{log: log, ninep: ninep.Server{Log: log}} }

// serve serves tree until ctx is done, and says on standard output when it
// has begun to.
func (f *front) serve(ctx context.Context, o options, tree *fs.Server) error {
	f.ninep.Root = tree.Root()
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
		m, err := fuse.Mount(o.mount, tree.Root(), fuse.Options{
			Name: "hutch", Log: slog.NewLogLogger(f.log.Handler(), slog.LevelInfo), Counters: &f.fuse,
		})
		switch {
		case err == nil:
			f.mount.Store(o.mount)
			defer m.Close()
		case o.mustMount:
			return fmt.Errorf("mount: %w", err)
		default:
			f.log.Warn("not mounted, serving 9P only; -mount none says so without a warning", "err", err)
			o.mount = "none"
		}
	}
	f.log.Info("serving", "listen", o.listen, "mount", o.mount, "state", o.state)
	fmt.Printf("ready %s %s\n", o.listen, o.mount)
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

// mounted returns where the tree is mounted, or none.
func (f *front) mounted() string {
	if dir, ok := f.mount.Load().(string); ok {
		return dir
	}
	return "none"
}

// metrics returns the frontends' counters.
func (f *front) metrics() []fs.Metric {
	n := f.ninep.Count()
	metric := func(name, kind, help string, value int64) fs.Metric {
		return fs.Metric{Name: name, Kind: kind, Help: help, Value: float64(value)}
	}
	return []fs.Metric{
		metric("hutch_9p_connections", "gauge", "9P connections", n.Conns),
		metric("hutch_9p_fids", "gauge", "9P fids in use", n.Fids),
		metric("hutch_9p_in_flight", "gauge", "9P requests under way", n.InFlight),
		metric("hutch_9p_requests_total", "counter", "9P requests", n.Requests),
		metric("hutch_9p_errors_total", "counter", "9P requests answered with an error", n.Errors),
		metric("hutch_9p_read_bytes_total", "counter", "bytes read over 9P", n.Read),
		metric("hutch_9p_written_bytes_total", "counter", "bytes written over 9P", n.Written),
		metric("hutch_fuse_open", "gauge", "files open over FUSE", f.fuse.Open.Load()),
		metric("hutch_fuse_waiting", "gauge", "FUSE reads and writes under way", f.fuse.Waiting.Load()),
		metric("hutch_fuse_requests_total", "counter", "FUSE requests for made-up files", f.fuse.Requests.Load()),
		metric("hutch_fuse_errors_total", "counter", "FUSE requests answered with an error", f.fuse.Errors.Load()),
		metric("hutch_fuse_interrupted_total", "counter", "FUSE requests given up by the client", f.fuse.Interrupted.Load()),
	}
}
