package ninep

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hutch/fs/ninep/wire"
)

// Benchmarks over a unix socket by a bare client, so that they measure the
// server and the socket. Package client has those of both ends.

// A bareClient sends requests made beforehand and reads whole replies.
type bareClient struct {
	b   *testing.B
	c   net.Conn
	buf []byte
}

func newBare(b *testing.B, version string) *bareClient {
	path := filepath.Join(b.TempDir(), "9p")
	tree, _ := serveOn(b, "unix!"+path)
	tree.SetBig(1 << 40)
	c, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	bare := &bareClient{b: b, c: c, buf: make([]byte, 1<<20)}
	bare.rpc("Tversion msize 0xffffff version " + version)
	bare.rpc("TattachL fid 0")
	return bare
}

func (c *bareClient) request(line string) []byte {
	n, err := parseNote(line)
	if err != nil {
		c.b.Fatal(err)
	}
	b, err := n.encode(1)
	if err != nil {
		c.b.Fatal(err)
	}
	return b
}

func (c *bareClient) rpc(line string) { c.do(c.request(line)) }

// do sends a request and returns the size of the reply.
func (c *bareClient) do(req []byte) int {
	if _, err := c.c.Write(req); err != nil {
		c.b.Fatal(err)
	}
	for n := 0; ; {
		m, err := c.c.Read(c.buf[n:])
		if err != nil {
			c.b.Fatal(err)
		}
		if n += m; n >= 4 && n == int(le.Uint32(c.buf)) {
			if c.buf[4] == wire.Rlerror {
				c.b.Fatalf("error %d to request of type %d", le.Uint32(c.buf[wire.HeadLen:]), req[4])
			}
			return n
		}
	}
}

// measure reports the percentiles of how long op takes.
func measure(b *testing.B, op func()) {
	b.ReportAllocs()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		op()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

func BenchmarkStatusRead(b *testing.B) {
	c := newBare(b, "9P2000.L")
	c.rpc("Twalk fid 0 newfid 1 wname [status]")
	c.rpc("Tlopen fid 1")
	read := c.request("Tread fid 1 count 4096")
	measure(b, func() { c.do(read) })
}

func BenchmarkGetattr(b *testing.B) {
	c := newBare(b, "9P2000.L")
	get := c.request("Tgetattr fid 0 mask 0x7ff")
	measure(b, func() { c.do(get) })
}

func BenchmarkWalkOpenReadClunk(b *testing.B) {
	c := newBare(b, "9P2000.L")
	walk := c.request("Twalk fid 0 newfid 1 wname [status]")
	open := c.request("Tlopen fid 1")
	read := c.request("Tread fid 1 count 4096")
	clunk := c.request("Tclunk fid 1")
	measure(b, func() {
		c.do(walk)
		c.do(open)
		c.do(read)
		c.do(clunk)
	})
}

func BenchmarkRead(b *testing.B) {
	for _, kib := range []int{4, 64, 128} {
		b.Run(fmt.Sprint(kib, "KiB"), func(b *testing.B) {
			c := newBare(b, "9P2000.L")
			c.rpc("Twalk fid 0 newfid 1 wname [big]")
			c.rpc("Tlopen fid 1")
			read := c.request(fmt.Sprint("Tread fid 1 count ", kib<<10))
			b.SetBytes(int64(kib << 10))
			measure(b, func() { c.do(read) })
		})
	}
}
