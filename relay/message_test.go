package relay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line   string
		kind   kind
		id     string
		method string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, request, "1", "x"},
		{`{"method":"x","id":"a","params":{"id":7,"method":"y"}}`, request, `"a"`, "x"},
		{`{"method":"x"}`, notice, "", "x"},
		{`{"id":1,"result":null}`, response, "1", ""},
		{`{"id":1,"error":{}}`, response, "1", ""},
		{`{"id":null,"result":1}`, opaque, "null", ""},
		{`{"id":1}`, opaque, "1", ""},
		{`{"id":1,"method":"x"`, opaque, "1", "x"},
		{`[]`, opaque, "", ""},
		{`rubbish`, opaque, "", ""},
	} {
		m := parse([]byte(c.line))
		if m.kind != c.kind || string(m.id) != c.id || m.method != c.method {
			t.Errorf("%s: kind %d, id %s, method %q", c.line, m.kind, m.id, m.method)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"method\":\"x\"}\n\n {\"id\":2}\r\nlast"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(b), 16)
		var got []byte
		for {
			line, size, err := readLine(in, 20)
			if len(line) > 20 || size > 20 != (size > len(line)) {
				t.Fatalf("line of %d, size %d", len(line), size)
			}
			m := parse(line)
			if why := failure(m.id, -1, string(line)); m.kind != opaque && !json.Valid(why) {
				t.Fatalf("answer %q", why)
			}
			got = append(got, line...)
			if errors.Is(err, io.EOF) {
				break
			}
		}
		if len(got) > len(b) {
			t.Fatal("more than there was")
		}
	})
}
