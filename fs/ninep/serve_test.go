package ninep

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// lines runs lines of a trace.
func (tr *tracer) lines(text string) {
	tr.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if err := tr.do(strings.TrimSpace(line)); err != nil {
			tr.t.Fatalf("%s\n\t%v", line, err)
		}
	}
}

const attachLinux = `
	Tversion tag NOTAG msize 65536 version 9P2000.L
	Rversion
	TattachL fid 0
	Rattach`

// TestFlushOrder sends ten thousand reads, each with its flush at its heels,
// while data comes in: whatever the read got is answered before the flush.
func TestFlushOrder(t *testing.T) {
	for _, name := range []string{"wait", "events", "status"} {
		t.Run(name, func(t *testing.T) {
			tr := newTracer(t)
			tr.lines(attachLinux + `
				Twalk fid 0 newfid 1 wname [` + name + `]
				Rwalk
				Tlopen fid 1 flags 0
				Rlopen`)
			pairs := 10_000
			if testing.Short() {
				pairs = 1000
			}
			go func() {
				for i := range pairs {
					p := note{name: "Tread", fields: map[string]string{"fid": "1", "count": "8", "offset": strconv.Itoa(i / 8)}}
					read, _ := p.encode(uint16(2 + i%100*2))
					p = note{name: "Tflush", fields: map[string]string{"oldtag": strconv.Itoa(2 + i%100*2)}}
					flush, _ := p.encode(uint16(3 + i%100*2))
					if i%3 == 0 {
						tr.tree.Push("x")
					}
					if i >= 100 && i%100 == 0 {
						// All tags of this hundred were used before: their
						// replies have to come first.
						<-tr.at.turn
					}
					tr.at.c.Write(append(read, flush...))
				}
			}()
			answered := map[string]bool{}
			for i := 0; i < pairs; {
				n, err := tr.at.next("", false)
				if err != nil {
					t.Fatal(err)
				}
				if n.name != "Rflush" {
					answered[n.tag] = true
					continue
				}
				tag, _ := strconv.Atoi(n.tag)
				if old := strconv.Itoa(tag - 1); !answered[old] {
					t.Fatalf("pair %d: Rflush before the reply to tag %s", i, old)
				}
				delete(answered, strconv.Itoa(tag-1))
				if i++; i%100 == 0 && i < pairs {
					tr.at.turn <- struct{}{}
				}
			}
			tr.end()
		})
	}
}

// TestSlots has more reads blocked than there are slots: others are answered,
// flushes and clunks too.
func TestSlots(t *testing.T) {
	tr := newTracer(t)
	tr.lines(attachLinux + `
		Twalk fid 0 newfid 1 wname [wait]
		Rwalk
		Tlopen fid 1 flags 0
		Rlopen
		Twalk fid 0 newfid 2 wname [status]
		Rwalk
		Tlopen fid 2 flags 0
		Rlopen`)
	const more = 50
	for i := range slots + more {
		tr.lines(fmt.Sprintf("Tread tag %d fid 1 count 10", 100+i))
	}
	tr.lines(fmt.Sprintf("blocked %d", slots))
	tr.lines(fmt.Sprintf(`
		Tgetattr tag 2 fid 1
		Rgetattr
		Tflush tag 3 oldtag %d
		Rflush
		Tread tag 4 fid 2 count 7
		Tflush tag 3 oldtag 100
		any Rlerror tag 100 ecode 4
		any Rflush tag 3`, 100+slots)) // the queued one is dropped, the running one answered
	tr.lines(fmt.Sprintf("blocked %d", slots))
	tr.lines("Tclunk tag 5 fid 1")
	tr.lines(`
		any Rclunk tag 5
		any Rread tag 4 data running
		blocked 0`)
	for i := range slots + more {
		if i != 0 && i != slots {
			tr.lines(fmt.Sprintf("any Rlerror tag %d ecode 4", 100+i))
		}
	}
	tr.end()
}

// TestOthersGoOn renames, removes and truncates while reads and writes are
// blocked on this connection and on another.
func TestOthersGoOn(t *testing.T) {
	tr := newTracer(t)
	for _, conn := range []string{"main", "other"} {
		tr.lines("conn " + conn + attachLinux + `
			Twalk fid 0 newfid 1 wname [wait]
			Rwalk
			Tlopen fid 1 flags 2
			Rlopen
			Tread tag 50 fid 1 count 10
			Twrite tag 51 fid 1 data x
			Twalk fid 0 newfid 2 wname [store]
			Rwalk`)
	}
	tr.lines("blocked 4")
	for _, conn := range []string{"main", "other"} {
		tr.lines("conn " + conn + `
			Tsetattr fid 1 valid 0x8 size 0
			Rsetattr
			Twalk fid 2 newfid 3
			Rwalk
			Tlcreate fid 3 name a flags 0101 mode 0644
			Rlcreate
			Trenameat olddfid 2 oldname a newdfid 2 newname b
			Rrenameat
			Tsetattr fid 3 valid 0x8 size 10
			Rsetattr
			Tunlinkat dfid 2 name b
			Runlinkat
			Tclunk fid 3
			Rclunk`)
	}
	tr.lines("blocked 4")
	tr.end()
}

// A flusher is a file whose handle says what it was told.
type flusher struct {
	fs.Refuse
	fs.MadeUp
	log *[]string
}

func (f flusher) Stat(context.Context) (fs.Stat, error)              { return fs.Stat{Mode: 0o666, Qid: 9}, nil }
func (f flusher) Open(context.Context, int) (fs.Handle, error)       { return f, nil }
func (f flusher) ReadAt(context.Context, []byte, int64) (int, error) { return 0, nil }
func (f flusher) WriteAt(_ context.Context, p []byte, _ int64) (int, error) {
	return len(p) / 2, fmt.Errorf("%w: half", fs.ErrInvalid)
}
func (f flusher) Flush(context.Context) error {
	*f.log = append(*f.log, "flush")
	return fmt.Errorf("%w: unfinished", fs.ErrInvalid)
}
func (f flusher) Close() error {
	*f.log = append(*f.log, "close")
	return nil
}

// TestFinish has a file finish what was written when it is clunked, but not
// when the connection is lost.
func TestFinish(t *testing.T) {
	var log []string
	tr := newTracer(t)
	tr.srv.Root = flusher{log: &log}
	tr.lines(`
		Tversion tag NOTAG msize 8192 version 9P2000
		Rversion
		Tattach fid 0
		Rattach
		Twalk fid 0 newfid 1
		Rwalk
		Topen fid 1 mode 1
		Ropen
		Twrite fid 1 data abcd
		Rwrite count 2
		Tclunk fid 1
		Rerror ename "invalid argument: unfinished"
		Tclunk fid 1
		Rerror
		Topen fid 0 mode 1
		Ropen`)
	tr.end()
	if got := strings.Join(log, " "); got != "flush close close" {
		t.Errorf("got %s", got)
	}
}

func TestLongError(t *testing.T) {
	long := strings.Repeat("é", 200)
	_, b := classic.putError(nil, fmt.Errorf("%w: %s", fs.ErrInvalid, long))
	c := wire.Cutter{B: b}
	got := c.Str()
	if len(got) > 127 || len(got) < 126 || !strings.HasPrefix("invalid argument: "+long, got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if typ, b := linux.putError(nil, errors.New("x")); typ != wire.Rlerror || le.Uint32(b) != 5 {
		t.Errorf("type %d, %x", typ, b)
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "made", "9p")
	l, err := Listen("unix!" + path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700 | os.ModeDir, path: 0o600 | os.ModeSocket} {
		if fi, err := os.Lstat(name); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	if _, err := Listen("unix!" + path); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("second: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if l, err = Listen("unix!" + path); err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]error{
		"unix!" + file:                     fs.ErrExist,
		"unix!" + strings.Repeat("x", 200): fs.ErrInvalid,
		"unix!":                            fs.ErrInvalid,
		"tcp!0.0.0.0!0":                    fs.ErrInvalid,
		"tcp!!0":                           fs.ErrInvalid,
		"tcp!127.0.0.1":                    fs.ErrInvalid,
		"quic!x!1":                         fs.ErrInvalid,
		"":                                 fs.ErrInvalid,
	} {
		if l, err := Listen(addr); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", addr, l, err)
		}
	}
	if l, err = Listen("tcp!127.0.0.1!0"); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestRefused has a server refuse a peer.
func TestRefused(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "9p")
	l, err := Listen("unix!" + addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	s := &Server{Root: flusher{}, Allow: func(c net.Conn) error {
		asked <- PeerCheck(c)
		return fs.ErrPermission
	}}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	c, err := net.Dial("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
	if err := <-asked; err != nil {
		t.Errorf("own process is refused: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestServeEnds has a blocked read when the server is told to end. One who has
// a file open for writing closes it first.
func TestServeEnds(t *testing.T) {
	for name, text := range map[string][2]string{
		"reading": {`
			Twalk fid 0 newfid 1 wname [wait]
			Rwalk
			Tlopen fid 1 flags 0
			Rlopen
			Tread fid 1 count 10
			blocked 1`, ""},
		"writing": {`
			Twalk fid 0 newfid 1 wname [ctl]
			Rwalk
			Tlopen fid 1 flags 1
			Rlopen`, `
			Tclunk fid 1
			Rclunk`},
	} {
		t.Run(name, func(t *testing.T) { serveEnds(t, text[0], text[1]) })
	}
}

func serveEnds(t *testing.T, before, after string) {
	tr := newTracer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ours, theirs := socketpair(t)
	defer ours.Close()
	conn := &hurried{Conn: theirs, told: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- tr.srv.ServeConn(ctx, conn) }()
	tr.at.c.Close()
	tr.at = &peer{c: ours, r: tr.at.r}
	tr.at.r.Reset(ours)
	tr.lines(attachLinux + before)
	cancel()
	if after != "" {
		<-conn.told
		tr.lines(after)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	tr.end()
}

// hurried is a connection that waits for ever where it is given a time.
type hurried struct {
	net.Conn
	told chan struct{} // it was given one
}

func (h *hurried) SetDeadline(time.Time) error {
	close(h.told)
	return nil
}
