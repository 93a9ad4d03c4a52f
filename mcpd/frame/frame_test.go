package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// raw builds a frame field by field, so that tests can get each one wrong.
type raw struct {
	total   int // -1: what it should be
	magic   uint16
	version uint8
	header  uint8
	stream  uint32
	flags   uint16
	nameLen int // -1: what it should be
	payLen  int // -1: what it should be
	name    string
	payload string
}

func good(stream uint32, payload string) raw {
	return raw{total: -1, magic: magic, version: 1, header: headerLen, stream: stream, nameLen: -1, payLen: -1, name: "claude", payload: payload}
}

func (r raw) bytes() []byte {
	or := func(n, right int) int {
		if n == -1 {
			return right
		}
		return n
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(or(r.total, headerLen+len(r.name)+len(r.payload))))
	b = binary.BigEndian.AppendUint16(b, r.magic)
	b = append(b, r.version, r.header)
	b = binary.BigEndian.AppendUint32(b, r.stream)
	b = binary.BigEndian.AppendUint16(b, r.flags)
	b = binary.BigEndian.AppendUint16(b, uint16(or(r.nameLen, len(r.name))))
	b = binary.BigEndian.AppendUint32(b, uint32(or(r.payLen, len(r.payload))))
	return append(append(b, r.name...), r.payload...)
}

func TestBytes(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := w.WriteFrame(Frame{Version: 1, Stream: 7, Process: "cl", Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x14MC\x01\x10\x00\x00\x00\x07\x00\x00\x00\x02\x00\x00\x00\x02cl{}"
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestMalformed(t *testing.T) {
	with := func(change func(*raw)) []byte {
		r := good(1, `{}`)
		change(&r)
		return r.bytes()
	}
	bad := func(reason string) error { return &BadFrame{Reason: reason} }
	for _, tt := range []struct {
		name string
		in   []byte
		want error
	}{
		{"length 15", with(func(r *raw) { r.total = 15 }), ErrLength},
		{"length 0", with(func(r *raw) { r.total = 0 }), ErrLength},
		{"length over", with(func(r *raw) { r.total = MaxFrame + 1 }), ErrLength},
		{"length all ones", []byte("\xff\xff\xff\xff"), ErrLength},
		{"http", []byte("GET / HTTP/1.1\r\n\r\n\r\n\r\n"), ErrLength},
		{"magic", with(func(r *raw) { r.magic = 0x4d44 }), bad("wrong magic")},
		{"version 0", with(func(r *raw) { r.version = 0 }), bad("unknown version")},
		{"version 3", with(func(r *raw) { r.version = 3 }), bad("unknown version")},
		{"header length", with(func(r *raw) { r.header = 20 }), bad("wrong header length")},
		{"flags of version 2 in 1", with(func(r *raw) { r.flags = More }), bad("reserved flags set")},
		{"flags", with(func(r *raw) { r.version, r.flags = 2, 8 }), bad("reserved flags set")},
		{"name too long", with(func(r *raw) { r.name = strings.Repeat("a", 129) }), bad("process name too long")},
		{"payload longer", with(func(r *raw) { r.payLen = 3 }), bad("lengths disagree")},
		{"payload shorter", with(func(r *raw) { r.payLen = 1 }), bad("lengths disagree")},
		{"payload overflow", with(func(r *raw) { r.payLen = 0xffffffff }), bad("lengths disagree")},
		{"name longer", with(func(r *raw) { r.nameLen = 7 }), bad("lengths disagree")},
		{"name not UTF-8", with(func(r *raw) { r.name = "\xff" }), bad("process name is not UTF-8")},
		{"stream 0", with(func(r *raw) { r.stream = 0 }), ErrStream},
		{"notification on a stream", with(func(r *raw) { r.flags = Notification }), ErrStream},
		{"half a length", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"half a header", good(1, "{}").bytes()[:12], io.ErrUnexpectedEOF},
		{"half a name", good(1, "{}").bytes()[:22], io.ErrUnexpectedEOF},
		{"half a payload", good(1, "{}").bytes()[:27], io.ErrUnexpectedEOF},
		{"nothing", nil, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(bytes.NewReader(append(tt.in, good(2, `{"next":1}`).bytes()...)))
			if errors.Is(tt.want, io.ErrUnexpectedEOF) || errors.Is(tt.want, io.EOF) {
				r = NewReader(bytes.NewReader(tt.in))
			}
			_, err := r.Next()
			var b *BadFrame
			if !errors.As(tt.want, &b) {
				if err != tt.want {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				return
			}
			var got *BadFrame
			if !errors.As(err, &got) || got.Reason != b.Reason || got.Stream != 1 {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			f, err := r.Next()
			if err != nil || f.Stream != 2 || string(f.Payload) != `{"next":1}` {
				t.Errorf("after it: %+v, %v", f, err)
			}
		})
	}
}

// TestLengthAlone writes a wrong length and nothing more, and waits.
func TestLengthAlone(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	go out.Write([]byte{0, 0, 0, 5, 'h', 'i'})
	if _, err := NewReader(in).Next(); err != ErrLength {
		t.Errorf("got %v, want %v", err, ErrLength)
	}
}

func TestOrdered(t *testing.T) {
	in := append(append(good(3, "a").bytes(), good(5, "b").bytes()...), good(5, "c").bytes()...)
	r := NewReader(bytes.NewReader(in))
	r.Ordered = true
	r.Next()
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != ErrOrder {
		t.Errorf("stream used again: %v, want %v", err, ErrOrder)
	}
}

func TestPreamble(t *testing.T) {
	frame := string(good(1, "{}").bytes())
	for _, tt := range []struct{ in, want string }{
		{"\x00CAPSEM_META:claude code\n", "claude_code"},
		{"\x00CAPSEM_META:\n", ""},
		{"", ""},
	} {
		r := NewReader(strings.NewReader(tt.in + frame))
		got, err := r.Preamble()
		if got != tt.want || err != nil {
			t.Errorf("preamble of %q: %q, %v", tt.in, got, err)
		}
		if f, err := r.Next(); err != nil || f.Stream != 1 {
			t.Errorf("frame after %q: %+v, %v", tt.in, f, err)
		}
	}
	r := NewReader(strings.NewReader("\x00CAPSEM_META:" + strings.Repeat("a", 5000) + "\n"))
	if _, err := r.Preamble(); err != ErrLength {
		t.Errorf("long preamble: %v", err)
	}
}

func TestSanitizeName(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"claude", "claude"},
		{"a b\tc\nd\x00e\x7f", "a_b_c_d_e_"},
		{"\xff", "_"},
		{strings.Repeat("é", 100), strings.Repeat("é", 64)},
		{"a" + strings.Repeat("é", 100), "a" + strings.Repeat("é", 63)},
	} {
		if got := SanitizeName(tt.in); got != tt.want {
			t.Errorf("SanitizeName(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestLarge(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	big := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16)
	if err := w.WriteFrame(Frame{Version: 1, Stream: 1, Payload: big}); err != ErrTooLarge {
		t.Errorf("2 MiB in version 1: %v", err)
	}
	fits := big[:MaxFrame-headerLen-len("p")]
	if err := w.WriteFrame(Frame{Version: 1, Stream: 1, Process: "p", Payload: fits}); err != nil {
		t.Errorf("the largest frame: %v", err)
	}
	if err := w.WriteFrame(Frame{Version: 2, Stream: 2, Payload: big}); err != nil {
		t.Error(err)
	}
	if err := w.WriteFrame(Frame{Version: 2, Stream: 3, Payload: make([]byte, MaxMessage+1)}); err != ErrTooLarge {
		t.Errorf("over 64 MiB in version 2: %v", err)
	}
	r := NewReader(&out)
	for i, want := range [][]byte{fits, big} {
		f, err := r.Next()
		if err != nil || f.Stream != uint32(i+1) || f.Flags != 0 || !bytes.Equal(f.Payload, want) {
			t.Fatalf("message %d: stream %d, flags %d, %d bytes, %v", i, f.Stream, f.Flags, len(f.Payload), err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// part is a frame of version 2.
func part(stream uint32, flags uint16, payload string) []byte {
	r := good(stream, payload)
	r.version, r.flags = 2, flags
	return r.bytes()
}

func TestInterleaved(t *testing.T) {
	var in []byte
	for _, b := range [][]byte{
		part(1, More, "a"), part(2, 0, "whole"), part(3, More, "x"), part(1, More|FromHost, "h"),
		part(1, More, "b"), part(3, 0, "y"), part(1, 0, "c"), part(1, FromHost, "i"),
	} {
		in = append(in, b...)
	}
	budget := NewBudget(1 << 20)
	r := NewReader(bytes.NewReader(in))
	r.Ordered, r.Account = true, budget.Open(nil)
	for _, want := range []string{"whole", "xy", "abc", "hi"} {
		f, err := r.Next()
		if err != nil || string(f.Payload) != want {
			t.Fatalf("got %q, %v, want %q", f.Payload, err, want)
		}
		r.Account.Give(len(f.Payload))
	}
	if budget.Used() != 0 || len(r.partials) != 0 {
		t.Errorf("%d bytes of %d messages left", budget.Used(), len(r.partials))
	}
}

func TestOverlong(t *testing.T) {
	mib := strings.Repeat("x", 1<<20)
	pr, pw := io.Pipe()
	go func() {
		for range 66 {
			pw.Write(part(1, More, mib))
		}
		pw.Write(part(1, 0, "end"))
		pw.Write(part(2, 0, "next"))
		pw.Close()
	}()
	r := NewReader(pr)
	var bad *BadFrame
	if _, err := r.Next(); !errors.As(err, &bad) || bad.Stream != 1 || bad.Reason != "message too large" {
		t.Fatalf("got %v", err)
	}
	if f, err := r.Next(); err != nil || string(f.Payload) != "next" {
		t.Errorf("after it: %q, %v", f.Payload, err)
	}
	if len(r.partials) != 0 {
		t.Errorf("%d bytes pending", len(r.partials))
	}
}

func TestTooManyPartials(t *testing.T) {
	var in []byte
	for i := range uint32(maxPartials + 1) {
		in = append(in, part(i+1, More, "x")...)
	}
	if _, err := NewReader(bytes.NewReader(in)).Next(); err != ErrPartial {
		t.Errorf("got %v, want %v", err, ErrPartial)
	}
}

func TestConcurrentWriters(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	w := NewWriter(a)
	big := bytes.Repeat([]byte("n"), 3<<20)
	var wg sync.WaitGroup
	for i := range uint32(20) {
		wg.Go(func() {
			f := Frame{Version: 2, Stream: i + 1, Payload: big}
			if i < 4 {
				f.Stream, f.Flags = 0, Notification
			}
			if err := w.WriteFrame(f); err != nil {
				t.Error(err)
			}
		})
	}
	r := NewReader(b)
	for range 20 {
		f, err := r.Next()
		if err != nil || !bytes.Equal(f.Payload, big) {
			t.Fatalf("stream %d: %d bytes, %v", f.Stream, len(f.Payload), err)
		}
	}
	wg.Wait()
}

func TestCloseUnblocksWriters(t *testing.T) {
	a, b := net.Pipe()
	w := NewWriter(a)
	errs := make(chan error, 8)
	for range 8 {
		go func() { errs <- w.WriteFrame(Frame{Version: 2, Stream: 1, Payload: make([]byte, 8<<20)}) }()
	}
	a.Close()
	b.Close()
	w.Close()
	for range 8 {
		if err := <-errs; err == nil {
			t.Error("written to a closed connection")
		}
	}
	if err := w.WriteFrame(Frame{Stream: 1}); err == nil {
		t.Error("written after Close")
	}
	if w.Post(Frame{Flags: Notification}) {
		t.Error("posted after Close")
	}
}

func TestPost(t *testing.T) {
	a, b := net.Pipe()
	w := NewWriter(a)
	posted := 0
	for w.Post(Frame{Version: 1, Flags: Notification, Payload: make([]byte, 1000)}) {
		posted++
	}
	if posted < held/1100 || posted > 3*held/1000 {
		t.Errorf("%d posts went through while nobody reads", posted)
	}
	r := NewReader(b)
	for range posted {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if !w.Post(Frame{Version: 2, Flags: Notification, Payload: make([]byte, 3<<20)}) {
		t.Error("no room after all was read")
	}
	if f, err := r.Next(); err != nil || len(f.Payload) != 3<<20 {
		t.Errorf("%d bytes, %v", len(f.Payload), err)
	}
	a.Close()
	w.Close()
}
