package client

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"

	"hutch/fs/ninep/wire"
)

// FuzzReplies has a server answer version and attach well, and then send
// anything. Every call ends.
func FuzzReplies(f *testing.F) {
	reply := func(typ byte, body ...byte) []byte {
		return append([]byte{byte(7 + len(body)), 0, 0, 0, typ, 1, 0}, body...)
	}
	qid := make([]byte, 13)
	walked := reply(wire.Twalk+1, append([]byte{1, 0}, qid...)...)
	opened := reply(wire.Tlopen+1, append(qid, 0, 0, 0, 0)...)
	got := reply(wire.Tgetattr+1, make([]byte, 153)...)
	f.Add(bytes.Join([][]byte{walked, opened, got}, nil))
	f.Add(bytes.Join([][]byte{walked, opened, got, walked, opened,
		reply(wire.Treaddir+1, append([]byte{25, 0, 0, 0}, append(make([]byte, 22), 1, 0, 'x')...)...),
		reply(wire.Treaddir+1, 0, 0, 0, 0), reply(wire.Tclunk + 1),
		reply(wire.Tread+1, 2, 0, 0, 0, 'a', 'b'), reply(wire.Twrite+1, 50, 0, 0, 0),
		reply(wire.Twrite+1, 50, 0, 0, 0)}, nil))
	f.Add(reply(wire.Rlerror, 2, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			defer theirs.Close()
			r := bufio.NewReader(theirs)
			for range 2 {
				greet(r, theirs)
			}
			go io.Copy(io.Discard, r)
			theirs.Write(b)
		}()
		c, err := New(within(t), ours, limit)
		if err != nil {
			t.Fatal(err)
		}
		provoke(within(t), c)
		c.Close()
		<-served
	})
}

// greet answers a Tversion or Tattach.
func greet(r *bufio.Reader, w io.Writer) {
	head, err := r.Peek(4)
	if err != nil {
		return
	}
	req := make([]byte, le.Uint32(head))
	io.ReadFull(r, req)
	if req[4] == wire.Tversion {
		w.Write(answer(req, le.AppendUint32(nil, maxMsize), []byte("\x08\x009P2000.L")))
	} else {
		w.Write(answer(req, make([]byte, 13)))
	}
}
