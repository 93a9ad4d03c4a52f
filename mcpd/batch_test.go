package mcpd

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// TestBatch has a program send batches: they are taken where revision 2025-03-26
// was agreed on, each request by itself, and refused elsewhere.
func TestBatch(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-11-25"} {
		st := newSite(t, nil, testServers("one"))
		out, in := st.program(t, "batcher")
		answers := bufio.NewReader(out)
		say := func(line string) []byte {
			fmt.Fprintln(in, line)
			for {
				answer, err := answers.ReadBytes('\n')
				if err != nil {
					t.Fatal(err)
				}
				if m, _ := jsonrpc.Parse(answer); m.Method == "" {
					return answer
				}
			}
		}
		say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		answer := say(`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__echo"}},` +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one__none"}},{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0"}]`)
		var got []string
		for _, element := range rawjson.Elements(answer) {
			m, _ := jsonrpc.Parse(element)
			got = append(got, string(m.ID)+" "+string(rawjson.Get(m.Error, "code")))
		}
		slices.Sort(got)
		want := []string{"1 ", "2 -32602", "3 ", "null -32600"}
		if revision == "2025-03-26" {
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q of %s", got, want, answer)
			}
			if rows := st.lines(3); rows[1]["method"] != "tools/call" || rows[2]["method"] != "tools/call" {
				t.Errorf("records: %v", rows)
			}
		} else if got != nil || !strings.Contains(string(answer), `"code":-32600,"message":"invalid request: batches are not supported`) {
			t.Errorf("%s: %s", revision, answer)
		}
	}
}
