package aggd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A dialogue is what a host and an aggregator say to one another, a line each:
//
//	> goes to the aggregator
//	< must come from it: an object with at least these members
//	! must be in the log at the end
//
// An answer goes on in lines without a mark; a text in it that ends in … need only
// begin so. The answers before an empty line may come in any order, and no others
// may come. URL stands for that of an MCP server, DEAD for one where nobody listens.
type dialogue string

// page is the first line where a dialogue begins with another: the reference's.
const page = `> [ { "name": "github", "url": "URL", "headers": {}, "bearer_token": "ghp_xxxx", "enabled": true, "source": "claude", "unsupported_stdio": false }]`

// answers are the lines that an aggregator writes.
type answers chan []byte

func (a answers) Write(line []byte) (int, error) {
	a <- bytes.Clone(line)
	return len(line), nil
}

// hold holds the dialogue with an aggregator that has f for a server, then ends
// the aggregator's input if that has not ended of itself.
func (d dialogue) hold(t *testing.T, f *streamableFake) {
	t.Helper()
	text := strings.TrimSpace(string(d))
	if !strings.HasPrefix(text, "> [") {
		text = page + "\n" + text
	}
	text = strings.ReplaceAll(text, "URL", serveStreamable(t, f).URL)
	if strings.Contains(text, "DEAD") {
		address, _ := reserve(t)
		text = strings.ReplaceAll(text, "DEAD", "http://"+address)
	}
	in, w := io.Pipe()
	out, log := make(answers, 1000), &lockedBuffer{}
	done := make(chan error, 1)
	go func() {
		done <- Run(context.Background(), Config{Log: log, ListWait: patience, EndWait: patience}, in, out)
		in.Close()
		close(out)
	}()
	var wanted, logged []string
	for line := range strings.Lines(text + "\n\n") {
		switch mark, rest, _ := strings.Cut(strings.TrimSpace(line), " "); mark {
		case ">":
			io.WriteString(w, rest+"\n")
		case "<":
			wanted = append(wanted, rest)
		case "!":
			logged = append(logged, rest)
		case "":
			out.meet(t, wanted)
			wanted = nil
		default: // more of the answer above
			wanted[len(wanted)-1] += strings.TrimSpace(line)
		}
	}
	w.Close()
	for line := range out {
		if m := decodeExact(t, line).(map[string]any); m["id"] != nil {
			t.Errorf("one answer too many: %s", line)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	wants(t, log.String(), logged...)
}

// meet reads as many answers as are wanted and compares them by id.
func (a answers) meet(t *testing.T, wanted []string) {
	t.Helper()
	got := make(map[string]any)
	for len(got) < len(wanted) {
		select {
		case line, more := <-a:
			if !more {
				t.Fatalf("the end in place of %s", wanted)
			}
			if bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Errorf("not one line: %q", line)
			}
			if m := decodeExact(t, line).(map[string]any); m["id"] != nil {
				got[fmt.Sprint(m["id"])] = m
			}
		case <-time.After(patience):
			t.Fatalf("no answer: %s is wanted", wanted)
		}
	}
	for _, want := range wanted {
		w := decodeExact(t, []byte(want)).(map[string]any)
		if g := got[fmt.Sprint(w["id"])]; !covers(g, w) {
			line, _ := json.Marshal(g)
			t.Errorf("got  %s\nwant %s", line, want)
		}
	}
}

func decodeExact(t *testing.T, line []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return v
}

// covers reports whether got has at least what want has.
func covers(got, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if !covers(g[k], v) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !covers(g[i], w[i]) {
				return false
			}
		}
		return true
	case string:
		if start, open := strings.CutSuffix(w, "…"); open {
			g, ok := got.(string)
			return ok && strings.HasPrefix(g, start)
		}
	}
	return reflect.DeepEqual(got, want)
}

// TestDialogue has what the aggregator does beyond the reference's page.
func TestDialogue(t *testing.T) {
	for name, d := range map[string]dialogue{
		"an id may be a text": `
			> {"id": "text", "method": "list_prompts"}
			< {"id": "text", "prompts": [{"original_name": "p__q"}]}`,
		"numbers stay exact": `
			> {"id": 1, "method": "call_tool", "params": {"name": "github__my__tool", "arguments": {"n": 12345678901234567890}}}
			< {"id": 1, "result": {"echo": {"name": "my__tool", "arguments": {"n": 12345678901234567890}}}}`,
		"a server's error object comes whole": `
			> {"id": 1, "method": "call_tool", "params": {"name": "github__fail"}}
			< {"id": 1, "error": "bad <args> (-32602)", "rpc_error": {"code": -32602, "message": "bad <args>", "data": [12345678901234567890]}}`,
		"refresh without servers": `
			> {"id": 1, "method": "refresh", "params": {}}
			< {"id": 1, "error": "refresh needs an array of servers"}`,
		"a definition that does not parse stands as a failed server": `
			> [{"name": 5}]
			> {"id": 1, "method": "list_servers"}
			< {"id": 1, "servers": [{"state": "failed", "error": "a server needs a name"}]}`,
	} {
		t.Run(name, func(t *testing.T) { d.hold(t, &streamableFake{}) })
	}
}
