package ninep

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs/fstest"
)

// TestTraces runs testdata/*.txt. A line is a T message to send, an R message
// that must be the next to come (with the fields given; "any R…" is the next
// of its tag), or one of
//
//	conn NAME       go on on another connection
//	hangup          close this one
//	lost            the server must close this one
//	raw HEX         send bytes
//	push TEXT       push into events
//	blocked N       wait until N reads and writes block
//	handles N       wait until N handles are open
//	stored NAME TEXT, gone NAME      what store must hold
//	message TEXT    what ctl must have got last
//
// A T message without a tag has tag 1, an R message that of the last T.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tr := newTracer(t)
			for i, line := range strings.Split(string(text), "\n") {
				line = strings.TrimSpace(line)
				if line == "" || line[0] == '#' {
					continue
				}
				if err := tr.do(line); err != nil {
					t.Fatalf("%s:%d: %s\n\t%v", file, i+1, line, err)
				}
			}
			tr.end()
		})
	}
}

// patience is how long a test waits for one thing that must happen.
const patience = time.Minute

// A tracer runs a trace against a server of a fresh tree.
type tracer struct {
	t     *testing.T
	tree  *fstest.Tree
	srv   *Server
	conns map[string]*peer
	at    *peer
	ctx   context.Context
	wait  sync.WaitGroup
}

// A peer is the client's end of a connection.
type peer struct {
	c     net.Conn
	r     *bufio.Reader
	tag   uint16
	aside []note // read while another tag was wanted
	turn  chan struct{}
}

func newTracer(t *testing.T) *tracer {
	tree := fstest.New(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	tr := &tracer{t: t, tree: tree, srv: &Server{Root: tree.Root()}, conns: map[string]*peer{}, ctx: ctx}
	tr.dial("main")
	return tr
}

// socketpair returns two ends of a unix socket.
func socketpair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func (tr *tracer) dial(name string) {
	ours, theirs := socketpair(tr.t)
	ours.SetDeadline(time.Now().Add(patience))
	tr.wait.Go(func() { tr.srv.ServeConn(tr.ctx, theirs) })
	tr.at = &peer{c: ours, r: bufio.NewReader(ours), turn: make(chan struct{})}
	tr.conns[name] = tr.at
}

// end hangs up and checks that nothing is left.
func (tr *tracer) end() {
	for _, p := range tr.conns {
		p.c.Close()
	}
	tr.wait.Wait()
	if open, _ := tr.tree.Handles(); open != 0 {
		tr.t.Errorf("%d handles open at the end", open)
	}
	c := &tr.srv.Counters
	if c.Conns.Load() != 0 || c.Fids.Load() != 0 || c.InFlight.Load() != 0 {
		tr.t.Errorf("left: %+v", c)
	}
	if n := tr.srv.kept.Load(); n != 0 {
		tr.t.Errorf("%d bytes kept at the end", n)
	}
}

func (tr *tracer) do(line string) error {
	ctx, cancel := context.WithTimeout(tr.ctx, patience)
	defer cancel()
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	value, more := cutValue(rest)
	count, _ := strconv.Atoi(value)
	switch word {
	case "conn":
		if tr.conns[value] == nil {
			tr.dial(value)
		}
		tr.at = tr.conns[value]
	case "hangup":
		return tr.at.c.Close()
	case "lost":
		if b, err := io.ReadAll(tr.at.r); err != nil || len(b) > 0 {
			return fmt.Errorf("not closed: %x, %v", b, err)
		}
	case "raw":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			return err
		}
		_, err = tr.at.c.Write(b)
		return err
	case "push":
		tr.tree.Push(value)
	case "blocked":
		return tr.tree.AwaitBlocked(ctx, count)
	case "handles":
		return tr.tree.AwaitHandles(ctx, count)
	case "stored":
		want, _ := cutValue(strings.TrimSpace(more))
		if got, ok := tr.tree.Stored(value); !ok || got != want {
			return fmt.Errorf("holds %q, %v", got, ok)
		}
	case "gone":
		if _, ok := tr.tree.Stored(value); ok {
			return fmt.Errorf("is still there")
		}
	case "message":
		all := tr.tree.Messages()
		if len(all) == 0 || all[len(all)-1] != value {
			return fmt.Errorf("got %q", all)
		}
	case "any":
		return tr.expect(rest, true)
	default:
		if word[0] == 'R' {
			return tr.expect(line, false)
		}
		return tr.send(line)
	}
	return nil
}

func (tr *tracer) send(line string) error {
	n, err := parseNote(line)
	if err != nil {
		return err
	}
	tag, err := number("tag", n.tag, false)
	if err != nil {
		return err
	}
	if n.tag == "" {
		tag = 1
	}
	b, err := n.encode(uint16(tag))
	if err != nil {
		return err
	}
	tr.at.tag = uint16(tag)
	_, err = tr.at.c.Write(b)
	return err
}

func (tr *tracer) expect(line string, any bool) error {
	want, err := parseNote(line)
	if err != nil {
		return err
	}
	if want.tag == "" {
		want.tag = strconv.Itoa(int(tr.at.tag))
	}
	got, err := tr.at.next(want.tag, any)
	if err != nil {
		return err
	}
	same := got.name == want.name && got.tag == want.tag
	for field, value := range want.fields {
		is := got.fields[field]
		if n, err := strconv.ParseUint(value, 0, 64); err == nil {
			value = strconv.FormatUint(n, 10)
		}
		if prefix, ok := strings.CutSuffix(value, "…"); ok {
			same = same && strings.HasPrefix(is, prefix)
			continue
		}
		if suffix, ok := strings.CutPrefix(value, "…"); ok {
			same = same && strings.HasSuffix(is, suffix)
			continue
		}
		same = same && is == value
	}
	if !same {
		return fmt.Errorf("got %s tag %s %q", got.name, got.tag, got.fields)
	}
	return nil
}

// next returns the next reply, or with any the next that has the tag.
func (p *peer) next(tag string, any bool) (note, error) {
	for i, n := range p.aside {
		if !any || n.tag == tag {
			p.aside = append(p.aside[:i:i], p.aside[i+1:]...)
			return n, nil
		}
	}
	p.c.SetDeadline(time.Now().Add(patience))
	for {
		frame, err := readReply(p.r)
		if err != nil {
			return note{}, err
		}
		n, _, err := decodeNote(frame)
		if err != nil {
			return n, err
		}
		if !any || n.tag == tag {
			return n, nil
		}
		p.aside = append(p.aside, n)
	}
}

func readReply(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, le.Uint32(head))
	_, err = io.ReadFull(r, frame)
	return bytes.Clone(frame), err
}
