package aggd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// TestTranscript drives the aggregator with the reference's own lines. A blank
// line in the script waits for all that was to come.
func TestTranscript(t *testing.T) {
	script, err := os.ReadFile("testdata/reference.txt")
	if err != nil {
		t.Fatal(err)
	}
	url := serveStreamable(t, &streamableFake{}).URL
	in, w := io.Pipe()
	r, out := io.Pipe()
	log := &lockedBuffer{}
	done := make(chan error, 1)
	go func() {
		done <- Run(context.Background(), Config{Log: log, ListWait: patience}, in, out)
		in.Close()
		out.Close()
	}()
	send := make(chan string, 100)
	go func() { // beside the reading, as a host does
		for line := range send {
			io.WriteString(w, line+"\n")
		}
	}()
	defer close(send)
	lines := wire.NewReader(r, 1<<20)
	var wanted []string
	scan := bufio.NewScanner(strings.NewReader(strings.ReplaceAll(string(script), "URL", url)))
	for scan.Scan() {
		line := scan.Text()
		switch {
		case strings.HasPrefix(line, "> "):
			send <- line[2:]
		case strings.HasPrefix(line, "< "):
			wanted = append(wanted, line[2:])
		case line == "":
			meet(t, lines, wanted)
			wanted = nil
		}
	}
	meet(t, lines, wanted)
	if err := <-done; err != nil {
		t.Error(err)
	}
	wants(t, log.String(), "skipped a line: not JSON", "skipped a line: no id")
}

// meet reads as many lines as are wanted and compares them by id.
func meet(t *testing.T, lines *wire.Reader, wanted []string) {
	t.Helper()
	got := make(map[string]any)
	for len(got) < len(wanted) {
		line, err := lines.Read()
		if err != nil {
			t.Fatal(err)
		}
		m := decodeExact(t, line).(map[string]any)
		if m["notification"] == nil {
			got[fmt.Sprint(m["id"])] = m
		}
	}
	for _, want := range wanted {
		w := decodeExact(t, []byte(want)).(map[string]any)
		g := got[fmt.Sprint(w["id"])]
		if !covers(g, w) {
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
	}
	return reflect.DeepEqual(got, want)
}
