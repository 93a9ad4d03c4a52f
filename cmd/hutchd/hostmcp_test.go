//go:build linux

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestHostMCPSession has the agent's session of hutch-mcp(1) happen: the
// results have what the page shows of them.
func TestHostMCPSession(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	text, err := os.ReadFile("../hutch/hutch-mcp.1")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(text), ".SH \"AN AGENT'S SESSION\"\n")
	session, _, _ = strings.Cut(session, "\n.SH ")
	session = strings.NewReplacer(`\e`, `\`, `\-`, "-", `\(aq`, "'").Replace(session)
	_, profile, _ := strings.Cut(session, "\n.EX\n")
	profile, session, _ = strings.Cut(profile, "\n.EE\n")
	s.write("profiles/careful.toml", profile+"\n")

	cmd := s.command("hutch", "mcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	calls := 0
	for line := range strings.Lines(session) {
		line = strings.TrimSpace(line)
		if call, ok := strings.CutPrefix(line, "> "); ok {
			tool, args, _ := strings.Cut(call, " ")
			calls++
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hutch_%s","arguments":%s}}`+"\n", calls, tool, args)
			continue
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var want any
		var got struct {
			Result struct{ StructuredContent any }
		}
		answer, err := answers.ReadString('\n')
		if err == nil {
			err = json.Unmarshal([]byte(answer), &got)
		}
		if err == nil {
			err = json.Unmarshal([]byte(line), &want)
		}
		if err != nil || !contains(got.Result.StructuredContent, want) {
			t.Fatalf("%v: want %s in %s", err, line, answer)
		}
	}
	if calls < 15 {
		t.Errorf("the session has %d calls", calls)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// contains says whether a JSON value has what is wanted of it: members of
// objects, and elements of arrays in their order.
func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for key, v := range want {
			ok = ok && contains(object[key], v)
		}
		return ok
	case []any:
		list, _ := got.([]any)
		for _, v := range want {
			for len(list) > 0 && !contains(list[0], v) {
				list = list[1:]
			}
			if len(list) == 0 {
				return false
			}
			list = list[1:]
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}
