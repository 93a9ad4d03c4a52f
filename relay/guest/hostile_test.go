package guest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
)

var le = binary.LittleEndian

// A liar is an agent that answers as a test tells it to: with a body for each
// type of message, from the request's body.
type liar struct {
	t       testing.TB
	conn    net.Conn
	answers map[uint8]func(req []byte) []byte // nil: none at all
	last    uint8                             // it hangs up with its answer to this
	refuse  atomic.Uint32                     // it answers this with an error
	done    chan struct{}
}

// honest returns answers that are right, for a tree in which every name is there.
func honest() map[uint8]func([]byte) []byte {
	qid := make([]byte, 13)
	return map[uint8]func([]byte) []byte{
		100: func(req []byte) []byte { return req }, // Tversion
		104: func([]byte) []byte { return qid },
		110: func(req []byte) []byte { // Twalk
			n := le.Uint16(req[8:])
			return append(le.AppendUint16(nil, n), make([]byte, 13*int(n))...)
		},
		12:  func([]byte) []byte { return append(qid, 0, 0, 0, 0) },
		24:  func([]byte) []byte { return make([]byte, 8+13+132) },
		72:  func([]byte) []byte { return qid },
		76:  func([]byte) []byte { return nil },
		108: func([]byte) []byte { return nil },
		120: func([]byte) []byte { return nil },
		116: func([]byte) []byte { return make([]byte, 4) },
		118: func(req []byte) []byte { return req[12:16] },
		40:  func([]byte) []byte { return make([]byte, 4) },
	}
}

func newLiar(t testing.TB, g *guest.Guest, answers map[uint8]func([]byte) []byte) *liar {
	here, there := sockets(t)
	return lieOn(t, g, here, there, answers)
}

func lieOn(t testing.TB, g *guest.Guest, here, there net.Conn, answers map[uint8]func([]byte) []byte) *liar {
	l := &liar{t: t, conn: there, answers: answers, done: make(chan struct{})}
	go l.serve()
	t.Cleanup(func() {
		there.Close()
		<-l.done
	})
	g.Attach(here)
	return l
}

func (l *liar) serve() {
	defer close(l.done)
	defer l.conn.Close()
	head := make([]byte, 7)
	for {
		if _, err := io.ReadFull(l.conn, head); err != nil {
			return
		}
		body := make([]byte, le.Uint32(head)-7)
		if _, err := io.ReadFull(l.conn, body); err != nil {
			return
		}
		answer := l.answers[head[4]]
		if answer == nil && head[4] == 42 { // an old agent, which has no Treaddirplus
			msg := []byte{11, 0, 0, 0, 7, head[5], head[6], 95, 0, 0, 0}
			if _, err := l.conn.Write(msg); err != nil {
				return
			}
			continue
		}
		if answer == nil {
			continue
		}
		b := answer(body)
		if b == nil && head[4] != 120 && head[4] != 108 && head[4] != 76 {
			continue
		}
		msg := le.AppendUint32(nil, uint32(len(b)+7))
		msg = append(msg, head[4]+1, head[5], head[6])
		if uint32(head[4]) == l.refuse.Load() {
			b, msg = []byte{5, 0, 0, 0}, []byte{11, 0, 0, 0, 7, head[5], head[6]}
		}
		if _, err := l.conn.Write(append(msg, b...)); err != nil || head[4] == l.last {
			return
		}
	}
}

func newGuest(t testing.TB) *guest.Guest {
	g := guest.New()
	t.Cleanup(func() { g.Close() })
	return g
}

func entry(next uint64, name string) []byte {
	b := le.AppendUint64(make([]byte, 13), next)
	b = append(b, 8)
	return append(le.AppendUint16(b, uint16(len(name))), name...)
}

// described is an entry of Treaddirplus.
func described(next uint64, name, target string) []byte {
	b := le.AppendUint64(nil, next)
	b = append(le.AppendUint16(b, uint16(len(name))), name...)
	b = append(le.AppendUint16(b, uint16(len(target))), target...)
	b = append(b, make([]byte, 8+13)...)
	b = le.AppendUint32(b, 0o120777)
	return append(b, make([]byte, 128)...)
}

func counted(b []byte) []byte { return append(le.AppendUint32(nil, uint32(len(b))), b...) }

// TestLies has a guest answer one kind of message wrongly. It must get an
// error, and another guest notice nothing.
func TestLies(t *testing.T) {
	list := func(g *guest.Guest) error { _, err := g.Root().List(t.Context()); return err }
	stat := func(g *guest.Guest) error { _, err := g.Root().Stat(t.Context()); return err }
	read := func(g *guest.Guest) error {
		h, err := g.Root().Open(t.Context(), os.O_RDONLY)
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = h.ReadAt(t.Context(), make([]byte, 10), 0)
		return err
	}
	write := func(g *guest.Guest) error { return g.Ctl(t.Context(), "shutdown") }
	for name, c := range map[string]struct {
		typ    uint8
		answer func([]byte) []byte
		do     func(*guest.Guest) error
	}{
		"read too much":      {116, func([]byte) []byte { return counted(make([]byte, 1000)) }, read},
		"read count":         {116, func([]byte) []byte { return []byte{255, 255, 255, 255, 1} }, read},
		"read nothing":       {116, func([]byte) []byte { return []byte{1} }, read},
		"write too much":     {118, func([]byte) []byte { return []byte{255, 255, 255, 255} }, write},
		"write short":        {118, func([]byte) []byte { return []byte{1, 0, 0, 0} }, write},
		"write negative":     {118, func([]byte) []byte { return []byte{} }, write},
		"walk too far":       {110, func([]byte) []byte { return append([]byte{9, 0}, make([]byte, 9*13)...) }, stat},
		"walk malformed":     {110, func([]byte) []byte { return []byte{1, 0, 3} }, stat},
		"stat short":         {24, func([]byte) []byte { return make([]byte, 10) }, stat},
		"stat long":          {24, func([]byte) []byte { return make([]byte, 1000) }, stat},
		"directory count":    {40, func([]byte) []byte { return []byte{255, 0, 0, 0, 1} }, list},
		"directory entry":    {40, func([]byte) []byte { return counted(entry(1, "name")[:23]) }, list},
		"described":          {42, func([]byte) []byte { return counted(described(1, "name", "to")[:60]) }, list},
		"described for ever": {42, func([]byte) []byte { return counted(bytes.Repeat(described(1, "same", ""), 1000)) }, list},
		"long targets": {42, func([]byte) []byte {
			return counted(bytes.Repeat(described(1, "same", strings.Repeat("x", 60000)), 4))
		}, list},
		"directory for ever": {40, func([]byte) []byte { return counted(bytes.Repeat(entry(0, "same"), 1000)) }, list},
		"directory of many": {40, func([]byte) []byte {
			var b []byte
			for i := range 5000 {
				b = append(b, entry(uint64(i), fmt.Sprint(i))...)
			}
			return counted(b)
		}, list},
	} {
		t.Run(name, func(t *testing.T) {
			answers := honest()
			answers[c.typ] = c.answer
			g := newGuest(t)
			newLiar(t, g, answers)
			if err := c.do(g); err == nil {
				t.Error("believed")
			}
		})
	}
}

func TestBadVersions(t *testing.T) {
	for _, answer := range [][]byte{
		nil,
		append([]byte{255, 255, 255, 255, 8, 0}, "9P2000.L"...),
		append([]byte{1, 0, 0, 0, 8, 0}, "9P2000.L"...),
		append([]byte{0, 0, 1, 0, 6, 0}, "9P2000"...),
		{0, 0, 1, 0, 255, 255},
	} {
		answers := honest()
		answers[100] = func([]byte) []byte { return answer }
		g := newGuest(t)
		l := newLiar(t, g, answers)
		if answer != nil {
			<-l.done // the host hangs up
		}
	}
}

func TestBadMessages(t *testing.T) {
	for _, b := range [][]byte{
		{0, 0, 0, 0}, {6, 0, 0, 0}, {255, 255, 255, 255}, // lengths
		{7, 0, 0, 0, 117, 9, 9},                     // no such request
		{7, 0, 0, 0, 117, 255, 255},                 // nor this
		{11, 0, 0, 0, 7, 1, 0, 2, 0, 0, 0, 0, 0, 0}, // errors to nothing
	} {
		g := newGuest(t)
		l := newLiar(t, g, honest())
		if err := g.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.conn.Write(b)
		<-l.done
		newLiar(t, g, honest()) // the next connection is as good as any
		if _, err := g.Exec(t.Context(), "t"); err != nil {
			t.Errorf("%v: %v", b, err)
		}
	}
}

func TestNamesOfLiars(t *testing.T) {
	t.Run("listed", func(t *testing.T) {
		namesOfLiars(t, 40, func(i uint64, name string) []byte { return entry(i, name) })
	})
	t.Run("described", func(t *testing.T) {
		namesOfLiars(t, 42, func(i uint64, name string) []byte { return described(i, name, "to") })
	})
}

func namesOfLiars(t *testing.T, typ uint8, entry func(uint64, string) []byte) {
	answers := honest()
	names := []string{"ok", "", ".", "..", "a/b", "nul\x00", strings.Repeat("x", 300), "../../etc", "ok", "also ok", "new\nline"}
	sent := false
	answers[typ] = func([]byte) []byte {
		if sent {
			return make([]byte, 4)
		}
		sent = true
		var b []byte
		for i, name := range names {
			b = append(b, entry(uint64(i+1), name)...)
		}
		return counted(b)
	}
	g := newGuest(t)
	newLiar(t, g, answers)
	list, err := g.Root().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name)
	}
	if fmt.Sprintf("%q", got) != `["also ok" "new\nline" "ok"]` {
		t.Errorf("names %q", got)
	}
}

func TestStatOfLiar(t *testing.T) {
	answers := honest()
	answers[24] = func([]byte) []byte {
		b := make([]byte, 8+13+132)
		for i := range b {
			b[i] = 255
		}
		return b
	}
	g := newGuest(t)
	newLiar(t, g, answers)
	st, err := g.Root().Stat(t.Context())
	if err != nil || st.Qid>>63 != 1 || int64(st.Size) < 0 || !st.Mtime.IsZero() {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestHang has a guest that does not answer. Everything ends in its time, and
// a guest beside it goes on.
func TestHang(t *testing.T) {
	answers := honest()
	answers[110] = nil
	g := newGuest(t)
	g.Hurry()
	newLiar(t, g, answers)
	other := newPair(t)
	ended := make(chan error, 3)
	go func() { _, err := g.Root().Stat(context.Background()); ended <- err }()
	go func() { _, err := g.MakeExec(context.Background(), "t"); ended <- err }()
	go func() { _, err := g.Exec(context.Background(), "t"); ended <- err }()
	for i := range 20 {
		if s := all(t, other.exec(fmt.Sprint(i), "exec echo ok"), "stdout"); s != "ok\n" {
			t.Errorf("the other one: %q", s)
		}
	}
	late := 0
	for range 3 {
		err := <-ended
		if err == nil {
			t.Error("no error")
		}
		if errors.Is(err, fs.ErrTimedOut) {
			late++
		}
	}
	if late == 0 {
		t.Error("nobody timed out")
	}
}

// TestCancelOfHang has a guest that neither answers a read nor its flush.
func TestCancelOfHang(t *testing.T) {
	answers := honest()
	answers[116], answers[108] = nil, nil
	g := newGuest(t)
	l := newLiar(t, g, answers)
	e, err := g.Exec(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	out := open(t, e, "stdout", os.O_RDONLY)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := out.h.ReadAt(ctx, make([]byte, 10), 0)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	g.Close() // and nothing is left
	<-l.done
}

// TestCancelAtTheEnd cancels reads while the connection ends, for the race detector.
func TestCancelAtTheEnd(t *testing.T) {
	for range 50 {
		answers := honest()
		answers[116], answers[108] = nil, nil
		g := newGuest(t)
		newLiar(t, g, answers)
		e, err := g.Exec(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		out := open(t, e, "stdout", os.O_RDONLY)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { out.h.ReadAt(ctx, make([]byte, 10), 0) })
		}
		work.Go(cancel)
		work.Go(func() { g.Close() })
		work.Wait()
	}
}

// TestLastWords has a guest that hangs up right after an answer.
func TestLastWords(t *testing.T) {
	for range 200 {
		g := newGuest(t)
		here, there := sockets(t)
		l := &liar{t: t, conn: there, answers: honest(), last: 24, done: make(chan struct{})}
		go l.serve()
		g.Attach(here)
		if _, err := g.Root().Stat(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-l.done
	}
}

// TestSlowGuest has a guest that takes a minute to start a program, and to
// write out its files, but not for anything else.
func TestSlowGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := honest()
		take := answers[118]
		answers[118] = func(req []byte) []byte { // Twrite
			<-time.After(time.Minute)
			return take(req)
		}
		g := newGuest(t)
		here, there := net.Pipe()
		lieOn(t, g, here, there, answers)
		e, err := g.MakeExec(t.Context(), "t")
		if err == nil {
			err = e.Ctl(t.Context(), "exec program")
		}
		if err != nil {
			t.Error(err)
		}
		if err := g.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestDeafGuest has a guest that reads nothing.
func TestDeafGuest(t *testing.T) {
	here, there := sockets(t)
	defer there.Close()
	g := newGuest(t)
	g.Hurry()
	g.Attach(here)
	if _, err := g.Execs(t.Context()); !errors.Is(err, fs.ErrTimedOut) {
		t.Error(err)
	}
}

// TestUnansweredClunks has a guest that lets fids pile up.
func TestUnansweredClunks(t *testing.T) {
	answers := honest()
	g := newGuest(t)
	g.Hurry()
	delete(answers, 120)
	l := newLiar(t, g, answers)
	for made := 0; made < 10_000; {
		select {
		case <-l.done: // the host has had enough
			return
		default:
		}
		if _, err := g.Exec(t.Context(), "t"); err == nil { // else it was late, which need not be the guest's doing
			made++
		}
	}
	t.Error("the host bears with it")
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte{11, 0, 0, 0, 7, 1, 0, 2, 0, 0, 0})
	f.Add([]byte{7, 0, 0, 0, 121, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newGuest(t)
		answers := honest()
		l := newLiar(t, g, answers)
		if g.Ready(t.Context()) != nil {
			return
		}
		l.conn.Write(b)
		l.conn.Close()
		<-l.done
	})
}
