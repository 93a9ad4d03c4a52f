package frame

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzReader reads arbitrary bytes; what it can make of them must come out
// the same when written and read again.
func FuzzReader(f *testing.F) {
	f.Add(good(1, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).bytes())
	f.Add(append(part(1, More, "a"), part(1, 0, "b")...))
	f.Add(AppendPreamble(nil, "claude"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(bytes.NewReader(in))
		r.Preamble()
		for {
			f, err := r.Next()
			var bad *BadFrame
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				return
			}
			again(t, f)
		}
	})
}

func again(t *testing.T, f Frame) {
	var out bytes.Buffer
	if err := NewWriter(&out).WriteFrame(f); err != nil {
		t.Fatalf("read but not written: %v", err)
	}
	g, err := NewReader(&out).Next()
	if err != nil || g.Stream != f.Stream || g.Flags != f.Flags || g.Process != f.Process || !bytes.Equal(g.Payload, f.Payload) {
		t.Fatalf("wrote %+v, read %+v, %v", f, g, err)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	var out bytes.Buffer
	w, r := NewWriter(&out), NewReader(&out)
	payload := bytes.Repeat([]byte("x"), 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.WriteFrame(Frame{Version: 1, Stream: 1, Process: "claude", Payload: payload}); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
