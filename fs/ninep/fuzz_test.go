package ninep

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/fstest"
	"hutch/fs/ninep/wire"
)

func FuzzL(f *testing.F)       { fuzz(f, linux, "9P2000.L") }
func FuzzClassic(f *testing.F) { fuzz(f, classic, "9P2000") }

// fuzz feeds bytes to the decoder, as one message and as all that comes over
// a connection.
func fuzz(f *testing.F, d dialect, version string) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		decodeAll(d, b)
		converse(t, version, b)
	})
}

// decodeAll takes b apart as each type of message.
func decodeAll(d dialect, b []byte) {
	for typ := range messages {
		if m := &messages[typ]; m.dialects&d != 0 {
			var r request
			c := wire.Cutter{B: b}
			for _, get := range m.get {
				get(&c, &r)
			}
			c.End()
			getStat(r.data)
		}
	}
}

// A script is a connection that brings bytes and takes all it is given.
type script struct {
	net.Conn
	r io.Reader
}

func (s script) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s script) Write(p []byte) (int, error) { return len(p), nil }
func (s script) Close() error                { return nil }

// converse serves a connection that brings b. Whatever it is, nothing is left.
func converse(t *testing.T, version string, b []byte) {
	hello := note{name: "Tversion", fields: map[string]string{"msize": "8192", "version": version}}
	first, err := hello.encode(0xffff)
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.New(t.TempDir())
	s := &Server{Root: tree.Root()}
	s.ServeConn(context.Background(), script{r: bytes.NewReader(append(first, b...))})
	if open, _ := tree.Handles(); open != 0 {
		t.Errorf("%d handles open", open)
	}
	if c := &s.Counters; c.Fids.Load() != 0 || c.InFlight.Load() != 0 {
		t.Errorf("left: %+v", c)
	}
}

// seeds are the messages of the traces.
func seeds(f *testing.F) [][]byte {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	var seeds [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var all []byte
		for line := range strings.SplitSeq(string(text), "\n") {
			n, err := parseNote(strings.TrimSpace(line))
			if err != nil || n.name[0] != 'T' || n.name == "Tversion" {
				continue
			}
			b, err := n.encode(uint16(len(all)))
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, b...)
			if len(all) > 2000 {
				seeds, all = append(seeds, all), nil
			}
		}
		seeds = append(seeds, all)
	}
	return seeds
}
