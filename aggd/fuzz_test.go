package aggd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// FuzzRequests feeds lines of a host to an aggregator without servers.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("[]\n{\"id\":1,\"method\":\"list_servers\"}\n{\"id\":2,\"method\":\"call_tool\",\"params\":{\"name\":\"a__b\"}}\n"))
	f.Add([]byte("[{\"name\":5},{\"name\":\"a__b\"}]\n{\"id\":{},\"method\":\"rpc\"}\n"))
	f.Add([]byte("{\"id\":1,\"method\":\"reply\",\"params\":{\"rid\":1}}\n{\"id\":2,\"method\":\"client\",\"params\":{\"capabilities\":{}}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(in, []byte("command")) || bytes.Contains(in, []byte("url")) || bytes.Contains(in, []byte(`\u`)) {
			return // it would start programs
		}
		var out bytes.Buffer
		if err := Run(context.Background(), Config{}, bytes.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
			if len(line) > 0 && !json.Valid(line) {
				t.Errorf("answered %q", line)
			}
		}
	})
}

// FuzzReceive feeds messages of a server to a connection with a call under way.
func FuzzReceive(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage"}`, `[{"jsonrpc":"2.0","id":1,"error":{}}]`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","id":1,"result":`, `{"level":"info"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsAny(line, "\r\n") {
			return // a transport hands on single lines
		}
		var out bytes.Buffer
		a := &aggregator{cfg: Config{Log: io.Discard}.withDefaults(), out: wire.NewWriter(&out), asked: make(map[uint64]asked)}
		a.setLimits(wire.Limits{})
		u := &upstream{agg: a, name: "s", client: "c1", lists: newLists()}
		c := newConn(u)
		c.transport = deafTransport{}
		q := &call{request: json.RawMessage("7"), token: json.RawMessage(`"t"`), outcome: make(chan outcome, 1)}
		c.enter(q)
		c.receive(line, nil)
		c.receive(line, q)
		c.fail(errors.New("over"))
		a.tasks.Wait()
		for _, l := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
			if len(l) > 0 && !json.Valid(l) {
				t.Errorf("told %q", l)
			}
		}
	})
}

type deafTransport struct{}

func (deafTransport) send(context.Context, []byte, *call) error { return nil }
func (deafTransport) begin(string)                              {}
func (deafTransport) close()                                    {}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message\ndata: {\"id\":1}\n\n: c\r\nid: 5\nretry: 10\ndata:a\ndata:b\r\n\r\n"))
	f.Add([]byte("data: " + strings.Repeat("x", 300) + "\n\ndata: y\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newEventReader(bytes.NewReader(in), 100)
		for range len(in) + 1 {
			e, err := r.next()
			var long *wire.TooLong
			if err != nil && !errors.As(err, &long) {
				return
			}
			if len(e.data) > 102 {
				t.Fatalf("%d bytes of data", len(e.data))
			}
		}
		t.Fatal("more events than bytes")
	})
}

func TestEvents(t *testing.T) {
	in := "\ufeffid: 1\nevent: a\ndata: one\ndata:  two\n\n: comment\n\nretry: 1500\r\ndata: three\r\n\r\ndata\n\ndata: " +
		strings.Repeat("x", 300) + "\nid: 9\n\ndata: {\"id\":7,\ndata: \"x\":\"" + strings.Repeat("y", 95) + "\"}\n\nevent: z\ndata: last\n\ndata: cut"
	r := newEventReader(strings.NewReader(in), 100)
	var got []string
	for {
		e, err := r.next()
		var long *wire.TooLong
		if errors.As(err, &long) {
			got = append(got, "long "+string(long.ID))
			continue
		}
		if err != nil {
			break
		}
		got = append(got, e.name+"|"+string(e.data))
	}
	want := []string{"a|one\n two", "|three", "|", "long ", "long 7", "z|last"}
	if strings.Join(got, "+") != strings.Join(want, "+") {
		t.Errorf("%q, want %q", got, want)
	}
	if r.lastID != "9" || r.retry.Milliseconds() != 1500 {
		t.Error(r.lastID, r.retry)
	}
}

// An endless reader repeats a text for ever.
type endless string

func (e endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// TestEndlessEvents has streams with a line, an event, that never ends: reading
// ends, and comments are neither.
func TestEndlessEvents(t *testing.T) {
	x := endless(strings.Repeat("x", 1000))
	for _, stream := range []endless{"data: " + x, "data: " + x + "\n", "id: " + x + "\n", "event: " + x + "\r\n"} {
		r := newEventReader(stream, 2000)
		var err error
		for err == nil || errors.As(err, new(*wire.TooLong)) {
			_, err = r.next()
		}
		if !errors.Is(err, wire.ErrEndless) {
			t.Errorf("%q: %v", stream, err)
		}
	}
}

func TestBackOff(t *testing.T) {
	for failures := range 100 {
		if d := backOff(failures); d > lastPause || d < firstPause/2 {
			t.Errorf("after %d failures %v", failures, d)
		}
	}
	if backOff(50) < lastPause/2 {
		t.Error("it does not grow")
	}
}
