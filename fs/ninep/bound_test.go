package ninep

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
)

// A spring is a file that never ends.
type spring struct {
	fs.Refuse
	fs.MadeUp
	reads *atomic.Int64
}

func (f spring) Stat(context.Context) (fs.Stat, error)        { return fs.Stat{Mode: 0o666, Qid: 9}, nil }
func (f spring) Open(context.Context, int) (fs.Handle, error) { return f, nil }
func (f spring) ReadAt(_ context.Context, p []byte, _ int64) (int, error) {
	f.reads.Add(1)
	return len(p), nil
}
func (f spring) WriteAt(_ context.Context, p []byte, _ int64) (int, error) { return len(p), nil }
func (f spring) Close() error                                              { return nil }

func await(t *testing.T, what string, test func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !test(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stopped says whether the connection waits for its client to read, and no read
// that ends soon is still under way, whose buffer is as large as was asked for.
func (c *conn) stopped() bool {
	c.loadMu.Lock()
	defer c.loadMu.Unlock()
	return c.full() && c.load.brief <= c.load.owed
}

// TestNeverReads has clients make a thousand reads each, and read no reply.
func TestNeverReads(t *testing.T) {
	const clients, reads = 8, 1000
	made := new(atomic.Int64)
	tr := newTracer(t)
	tr.srv.Root = spring{reads: made}
	before := heap()
	var served []*conn
	var serving sync.WaitGroup
	for range clients {
		ours, theirs := socketpair(t)
		c := newConn(tr.ctx, tr.srv, theirs)
		served = append(served, c)
		serving.Go(func() { c.serve() })
		defer ours.Close()
		tr.at = &peer{c: ours, r: bufio.NewReader(ours)}
		tr.lines(attachLinux + `
			Twalk fid 0 newfid 1
			Rwalk
			Tlopen fid 1 flags 0
			Rlopen`)
		tr.conns[strconv.Itoa(len(served))] = tr.at
		n := note{name: "Tread", fields: map[string]string{"fid": "1", "count": "65000"}}
		go func() {
			for i := range reads {
				b, _ := n.encode(uint16(100 + i))
				ours.Write(b)
			}
		}()
	}
	await(t, "neither all is read, nor waits", func() bool {
		all := true
		for _, c := range served {
			all = all && c.stopped()
		}
		return all || made.Load() == clients*reads
	})
	if n := heap() - before; n > allRoom+clients*ownRoom+20<<20 {
		t.Errorf("%d MiB held", n>>20)
	}
	tr.at.c.Close()
	for _, p := range tr.conns {
		p.c.Close()
	}
	serving.Wait()
	if n := tr.srv.held.Load(); n != 0 {
		t.Errorf("%d bytes held at the end", n)
	}
	tr.end()
}

// A leaf is a small file, which is made anew for who opens it.
type leaf struct {
	fs.Refuse
	fs.MadeUp
	text []byte
}

func (f leaf) Stat(context.Context) (fs.Stat, error)        { return fs.Stat{Mode: 0o444, Qid: 9}, nil }
func (f leaf) Open(context.Context, int) (fs.Handle, error) { return f, nil }
func (f leaf) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return copy(p, f.text[min(off, int64(len(f.text))):]), nil
}
func (f leaf) WriteAt(context.Context, []byte, int64) (int, error) { return 0, fs.ErrPermission }
func (f leaf) Close() error                                        { return nil }

// TestNeverReadsSmall has clients ask for all of a small file, with as many
// tags as there are, and read no reply. What they hold is a megabyte each, and
// goes back to the system when they end.
func TestNeverReadsSmall(t *testing.T) {
	const clients = 24
	tr := newTracer(t)
	tr.srv.Root = leaf{text: make([]byte, 10_000)}
	ask := note{name: "Tread", fields: map[string]string{"fid": "1", "count": "0xffffffff"}}
	var asked []byte
	for i := range 0xffff {
		b, err := ask.encode(uint16(i))
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, b...)
	}
	before := used()
	var asking, serving sync.WaitGroup
	var served []*conn
	for i := range clients {
		ours, theirs := socketpair(t)
		c := newConn(tr.ctx, tr.srv, theirs)
		served = append(served, c)
		serving.Go(func() { tr.srv.serveConn(c) })
		tr.at = &peer{c: ours, r: bufio.NewReader(ours)}
		tr.conns[strconv.Itoa(i)] = tr.at
		tr.lines(`
			Tversion tag NOTAG msize 262144 version 9P2000.L
			Rversion
			TattachL fid 0
			Rattach
			Twalk fid 0 newfid 1
			Rwalk
			Tlopen fid 1 flags 0
			Rlopen`)
		asking.Go(func() { ours.Write(asked) })
	}
	await(t, "neither all is read, nor waits", func() bool {
		for _, c := range served {
			if !c.stopped() {
				return false
			}
		}
		return true
	})
	held := (used() - before) / clients >> 10
	t.Logf("%d KiB held of each, %d requests under way", held, tr.srv.Counters.InFlight.Load())
	if held > maxWaiting*3/2>>10 {
		t.Errorf("%d KiB held of each", held)
	}
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	for _, p := range tr.conns {
		p.c.Close()
	}
	asking.Wait()
	serving.Wait()
	await(t, "the memory does not go back", func() bool {
		runtime.ReadMemStats(&is)
		return is.NumForcedGC > was.NumForcedGC
	})
	tr.end()
}

// used returns what is in use, stacks as well.
func used() int64 {
	runtime.GC()
	runtime.GC() // what was in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestSlowReader has a client read its replies after it made all requests:
// none is lost.
func TestSlowReader(t *testing.T) {
	tr := newTracer(t)
	tr.srv.Root = spring{reads: new(atomic.Int64)}
	tr.lines(attachLinux + `
		Twalk fid 0 newfid 1
		Rwalk
		Tlopen fid 1 flags 0
		Rlopen`)
	const reads = 2000
	n := note{name: "Tread", fields: map[string]string{"fid": "1", "count": "65000"}}
	go func() {
		for i := range reads {
			b, _ := n.encode(uint16(100 + i))
			tr.at.c.Write(b)
		}
	}()
	for range reads {
		got, err := tr.at.next("", false)
		if err != nil || got.name != "Rread" {
			t.Fatalf("%+v, %v", got.name, err)
		}
	}
	tr.end()
}

// TestLeavesNeverReader ends the service of a client that has a file open for
// writing and reads no reply.
func TestLeavesNeverReader(t *testing.T) {
	tr := newTracer(t)
	tr.srv.Root = spring{reads: new(atomic.Int64)}
	ctx, cancel := context.WithCancel(tr.ctx)
	defer cancel()
	ours, theirs := socketpair(t)
	defer ours.Close()
	c := newConn(ctx, tr.srv, theirs)
	stop := context.AfterFunc(ctx, c.leave)
	defer stop()
	ended := make(chan struct{})
	go func() {
		c.serve()
		close(ended)
	}()
	tr.at = &peer{c: ours, r: bufio.NewReader(ours)}
	tr.lines(attachLinux + `
		Twalk fid 0 newfid 1
		Rwalk
		Tlopen fid 1 flags 2
		Rlopen`)
	n := note{name: "Tread", fields: map[string]string{"fid": "1", "count": "65000"}}
	go func() {
		for i := range 1000 {
			b, _ := n.encode(uint16(100 + i))
			ours.Write(b)
		}
	}()
	await(t, "all is sent", c.stopped)
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("it is waited for")
	}
	tr.end()
}

// TestManyFids makes as many fids as a connection may have, and one more.
func TestManyFids(t *testing.T) {
	tr := newTracer(t)
	tr.lines(attachLinux)
	next := func(name string) {
		t.Helper()
		got, err := tr.at.next("", false)
		if err != nil || got.name != name || name == "Rlerror" && got.fields["ecode"] != strconv.Itoa(int(syscall.EMFILE)) {
			t.Fatalf("got %+v, %v, want %s", got, err, name)
		}
	}
	walk := func(fid int) {
		n := note{name: "Twalk", fields: map[string]string{"fid": "0", "newfid": strconv.Itoa(fid)}}
		b, err := n.encode(uint16(fid % maxOps))
		if err != nil {
			t.Error(err)
		}
		tr.at.c.Write(b)
	}
	const few = 256
	for fid := 1; fid < maxFids; {
		n := min(few, maxFids-fid)
		for range n {
			walk(fid)
			fid++
		}
		for range n {
			next("Rwalk")
		}
	}
	walk(maxFids)
	next("Rlerror")
	tr.lines("Tclunk fid 7\nRclunk")
	walk(maxFids)
	next("Rwalk")
	tr.end()
}

// TestTold has clients end with half a message: that is told once, and then how
// often.
func TestTold(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "9p")
	l, err := Listen("unix!" + addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	s := &Server{Root: flusher{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	const clients = 50
	for range clients {
		c, err := net.Dial("unix", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte{19, 0, 0})
		c.Close()
	}
	await(t, "they stay", func() bool { n := &s.Counters; return n.Accepted.Load() == clients && n.Conns.Load() == 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := log.String()
	if strings.Count(got, "\n") != 2 || strings.Count(got, io.ErrUnexpectedEOF.Error()) != 2 || !strings.Contains(got, fmt.Sprintf("more=%d\n", clients-1)) {
		t.Errorf("the log is\n%s", got)
	}
}
