package alone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"

	"hutch/aggd/child"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// FuzzClient has a client say anything: each line it is told is JSON-RPC, and the
// input is read to its end.
func FuzzClient(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n" + `[{"jsonrpc":"2.0","id":1,"method":"ping"},7]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a:b:c","_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"a:x"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add([]byte(line))
	}
	servers, err := parse([]byte(`{"mcpServers":{"a":{"command":"x"},"a:b":{"command":7}}}`), nil)
	if err != nil {
		f.Fatal(err)
	}
	c, err := child.Start(f.Context(), child.Config{ // which is not there, and answers at once
		Path: filepath.Join(f.TempDir(), "none"), Servers: []wire.Server{servers[0].Server}, Log: io.Discard,
		Notify: func(wire.Notification) {}, Request: refuse, Up: func() {}, Down: func(error) {},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		var out output
		ctx, lost := context.WithCancel(t.Context())
		face := newFace(Config{Servers: servers, Separator: ":", All: true}, &out, lost)
		face.child = c
		if err := face.read(wire.NewReader(bytes.NewReader(text), 1<<20)); err != nil {
			t.Fatal(err)
		}
		face.requests.Wait()
		face.close()
		if ctx.Err() != nil || face.pending.Load() != 0 || len(face.inFlight) != 0 {
			t.Errorf("%v, %d bytes, %d requests are left", ctx.Err(), face.pending.Load(), len(face.inFlight))
		}
		lines := bufio.NewScanner(&out)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			line := lines.Bytes()
			if !json.Valid(line) || line[0] != '[' && rawjson.GetString(line, "jsonrpc") != "2.0" {
				t.Errorf("%s", line)
			}
		}
	})
}

type output struct{ bytes.Buffer }

func (*output) Close() error { return nil }
