package ninep

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hutch/fs"
)

// A lobby is a server that tests fill with connections, over a real socket.
type lobby struct {
	*tracer
	addr string
}

func newLobby(t *testing.T, s *Server) *lobby {
	t.Helper()
	addr := filepath.Join(t.TempDir(), "9p")
	l, err := Listen("unix!" + addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &lobby{tracer: &tracer{t: t, srv: s, ctx: ctx, conns: map[string]*peer{}}, addr: addr}
}

// dial has a client connect, and be the one that speaks.
func (l *lobby) dial(name string) net.Conn {
	l.t.Helper()
	c, err := net.Dial("unix", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	l.at = &peer{c: c, r: bufio.NewReader(c)}
	l.conns[name] = l.at
	return c
}

// TestIdlers has clients that say nothing, or too little, fill the server: who
// comes then gets in.
func TestIdlers(t *testing.T) {
	for name, said := range map[string]string{
		"nothing":           "",
		"half a version":    "\x13\x00\x00\x00d\xff\xff",
		"a version":         "\x13\x00\x00\x00d\xff\xff\x00\x20\x00\x00\x06\x009P2000",
		"half a message":    "\x13\x00\x00\x00d\xff\xff\x00\x20\x00\x00\x06\x009P2000" + "\x0b\x00\x00\x00x\x01",
		"half a frame head": "\x13\x00\x00\x00d\xff\xff\x00\x20\x00\x00\x06\x009P2000" + "\x0b",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLobby(t, &Server{Root: flusher{}, MaxConns: 2, silence: time.Nanosecond})
			for range 6 {
				l.dial("").Write([]byte(said))
			}
			l.dial("")
			l.lines(attachLinux)
		})
	}
}

// A door is a folder from which no way leads before it opens.
type door struct {
	flusher
	open chan struct{}
}

func (d door) Stat(context.Context) (fs.Stat, error) {
	return fs.Stat{Mode: os.ModeDir | 0o755, Qid: 8}, nil
}

func (d door) Walk(ctx context.Context, _ string) (fs.Node, error) {
	select {
	case <-d.open:
		return d.flusher, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestGivesWay has clients come one after the other while the server is full:
// those give way that miss nothing, in order, and no other.
func TestGivesWay(t *testing.T) {
	root := door{open: make(chan struct{})}
	l := newLobby(t, &Server{Root: root, MaxConns: 4, silence: time.Nanosecond})
	l.dial("walks")
	l.lines(attachLinux + "\nTwalk fid 0 newfid 1 wname [in]")
	await(t, "no walk", func() bool { return l.srv.Counters.InFlight.Load() == 1 })
	l.dial("has it open")
	l.lines(attachLinux + "\nTlopen fid 0 flags 0\nRlopen")
	l.dial("attached")
	l.lines(attachLinux)
	l.dial("silent")
	l.lines("Tversion tag NOTAG msize 65536 version 9P2000.L\nRversion")
	for _, come := range []struct{ name, goes string }{{"first", "silent"}, {"second", "attached"}, {"third", "first"}} {
		l.dial(come.name)
		l.lines(attachLinux)
		l.at = l.conns[come.goes]
		l.lines("lost")
	}
	l.at = l.conns["second"]
	l.lines("Tgetattr fid 0\nRgetattr")
	l.at = l.conns["has it open"]
	l.lines("Tgetattr fid 0\nRgetattr")
	close(root.open)
	l.at = l.conns["walks"]
	l.lines("Rwalk")
}

// TestMaxConns has one connection more than there may be wait for its turn.
func TestMaxConns(t *testing.T) {
	l := newLobby(t, &Server{Root: flusher{}, MaxConns: 2, silence: time.Hour})
	first := l.dial("first")
	l.dial("second")
	l.dial("third")
	await(t, "not served", func() bool { return l.srv.Counters.Conns.Load() == 2 })
	first.Close()
	l.lines(attachLinux)
	if n := &l.srv.Counters; n.Conns.Load() != 2 || n.Accepted.Load() != 3 {
		t.Errorf("%+v", n)
	}
}
