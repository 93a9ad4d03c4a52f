package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"

	"hutch/fs/ninep/wire"
)

var le = binary.LittleEndian

// A liar answers the first requests as a server does, and then with what a
// test gives it.
func liar(t testing.TB, c net.Conn, lie func(req []byte) []byte) {
	r := bufio.NewReader(c)
	for {
		head, err := r.Peek(4)
		if err != nil {
			return
		}
		req := make([]byte, le.Uint32(head))
		if _, err := io.ReadFull(r, req); err != nil {
			return
		}
		var reply []byte
		qid := make([]byte, 13)
		switch req[4] {
		case wire.Tversion:
			reply = answer(req, le.AppendUint32(nil, maxMsize), []byte("\x08\x009P2000.L"))
		case wire.Tattach:
			reply = answer(req, qid)
		case wire.Twalk:
			reply = answer(req, []byte{1, 0}, qid)
		case wire.Tlopen:
			reply = answer(req, qid, make([]byte, 4))
		}
		if lied := lie(req); lied != nil {
			reply = lied
		}
		if reply == nil {
			reply = answer(req)
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// answer makes the reply to req.
func answer(req []byte, parts ...[]byte) []byte {
	b := make([]byte, wire.HeadLen)
	for _, p := range parts {
		b = append(b, p...)
	}
	le.PutUint32(b, uint32(len(b)))
	b[4] = req[4] + 1
	copy(b[5:], req[5:7])
	return b
}

func counted(req []byte, n, data int) []byte {
	return answer(req, le.AppendUint32(nil, uint32(n)), make([]byte, data))
}

// TestLiars has servers send replies that a client may panic over, hang on,
// or take for something else. The call fails and the connection ends.
func TestLiars(t *testing.T) {
	for name, lie := range map[string]func(req []byte) []byte{
		"more data than asked for": func(req []byte) []byte {
			return map[byte][]byte{wire.Tread: counted(req, 200, 200)}[req[4]]
		},
		"more data than fits": func(req []byte) []byte {
			return map[byte][]byte{wire.Tread: counted(req, maxMsize-11, maxMsize-11)}[req[4]]
		},
		"less data than counted": func(req []byte) []byte {
			return map[byte][]byte{wire.Tread: counted(req, 50, 40)}[req[4]]
		},
		"more written than sent": func(req []byte) []byte {
			return map[byte][]byte{wire.Twrite: counted(req, 1<<20, 0)}[req[4]]
		},
		"another type": func(req []byte) []byte {
			b := counted(req, 5, 5)
			b[4] = wire.Tlopen + 1
			return map[byte][]byte{wire.Tread: b, wire.Twrite: b}[req[4]]
		},
		"another tag": func(req []byte) []byte {
			b := counted(req, 5, 5)
			b[5] ^= 0x55
			return map[byte][]byte{wire.Tread: b, wire.Twrite: b}[req[4]]
		},
		"no size": func(req []byte) []byte {
			return map[byte][]byte{wire.Tread: make([]byte, 16), wire.Twrite: make([]byte, 16)}[req[4]]
		},
		"huge size": func(req []byte) []byte {
			b := counted(req, 5, 5)
			b[3] = 0x7f
			return map[byte][]byte{wire.Tread: b, wire.Twrite: b}[req[4]]
		},
		"short error": func(req []byte) []byte {
			b := answer(req)
			b[4] = wire.Rlerror
			return map[byte][]byte{wire.Tread: b, wire.Twrite: b}[req[4]]
		},
		"attributes cut off": func(req []byte) []byte {
			return map[byte][]byte{wire.Tgetattr: answer(req, make([]byte, 20))}[req[4]]
		},
		"entries cut off": func(req []byte) []byte {
			return map[byte][]byte{wire.Treaddir: counted(req, 4, 2)}[req[4]]
		},
		"qids cut off": func(req []byte) []byte {
			return map[byte][]byte{wire.Twalk: answer(req, []byte{16, 0})}[req[4]]
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go liar(t, theirs, lie)
			defer theirs.Close()
			c, err := New(within(t), ours, limit)
			ok(t, err)
			defer c.Close()
			if err := provoke(within(t), c); err == nil {
				t.Error("no error")
			}
			<-c.Down()
		})
	}
}

// provoke makes one call after the other until one fails.
func provoke(ctx context.Context, c *Conn) error {
	f, err := c.Open(ctx, wire.Path("x"), os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err := f.Stat(ctx); err != nil {
		return err
	}
	if _, err := c.List(ctx, wire.Path("x")); err != nil {
		return err
	}
	if _, err := f.ReadAt(ctx, Quick, make([]byte, 100), 0); err != nil {
		return err
	}
	_, err = f.WriteAt(ctx, Quick, make([]byte, 100), 0)
	return err
}

// TestBadNames has a server list names that lead out of the directory.
func TestBadNames(t *testing.T) {
	for _, name := range []string{"a/b", "a\x00b", "", ".", ".."} {
		sent := false
		lie := func(req []byte) []byte {
			if req[4] != wire.Treaddir || sent {
				return map[byte][]byte{wire.Treaddir: counted(req, 0, 0)}[req[4]]
			}
			sent = true
			entry := append(make([]byte, 13+8+1), byte(len(name)), 0)
			entry = append(entry, name...)
			return answer(req, le.AppendUint32(nil, uint32(len(entry))), entry)
		}
		ours, theirs := net.Pipe()
		go liar(t, theirs, lie)
		c, err := New(within(t), ours, limit)
		ok(t, err)
		if list, err := c.List(within(t), wire.Path("x")); err != nil || len(list) > 0 {
			t.Errorf("%q: %v, %v", name, list, err)
		}
		c.Close()
		theirs.Close()
	}
}
