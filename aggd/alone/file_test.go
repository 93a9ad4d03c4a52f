package alone

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// TestFile reads files and says what each server is, or what is wrong.
func TestFile(t *testing.T) {
	env := map[string]string{"HOME": "/home/u", "TOKEN": "to ken", "EMPTY": "", "HUGE": strings.Repeat("x", 100<<10), "REF": "${HOME}"}
	for _, s := range []struct{ text, want string }{
		{``, `invalid JSON: ends too early`},
		{`{`, `invalid JSON: ends too early`},
		{`[]`, `it has no "mcpServers": {…}`},
		{`{}`, `it has no "mcpServers": {…}`},
		{`{"mcpServers":[]}`, `"mcpServers" is no object: write {"KEY": {…}}`},
		{`{"mcpServers":{},"mcpServers":{}}`, `it has "mcpServers" twice: remove one`},
		{"{\"mcpServers\":{\"\xff\":{}}}", `invalid UTF-8`},
		{`{"mcpServers":{"a":{},"\u0061":{}}}`, `two servers have the key "a": rename one`},
		{`{"mcpServers":{"a":{"command":"c","args":["${HUGE}","${HUGE}"]}}}`, `its servers take more than 131072 bytes together`},
		{`{"mcpServers":{` + strings.Repeat(`"a":{"disabled":true},`, 1) + many(maxServers+1) + `}}`, `it has more than 512 servers`},
		{"\ufeff" + `{"mcpServers":{},"other":{"x":1,"x":2}}`, ``},
		{"// of mine\n{\"mcpServers\": {\"a\": {\"command\": \"c\", /* old */},},} // end", `a: stdio c [] map[] `},
		{`{"mcpServers": {"a": {"command": "c"} "b": {}}, }`, `invalid JSON: unexpected '"' at byte 38`},
		{strings.Repeat("/**/[", 100_000), `invalid JSON: unexpected '/' at byte 0`},

		{`{"mcpServers":{"a":{"command":"c","args":["-x","${HOME}/y"],"env":{"T":"a${TOKEN}b$HOME"},"cwd":"${HOME}"}}}`,
			`a: stdio c ["-x" "/home/u/y"] map[T:ato kenb$HOME] /home/u`},
		{`{"mcpServers":{"b":{"command":"c","args":["${X:-d e}","${EMPTY:-x}","${X:-}","${REF}","${","$","${}","${HOME"],"alwaysAllow":["x"],"timeout":60}}}`,
			`b: stdio c ["d e" "" "" "${HOME}" "${" "$" "${}" "${HOME"] map[] `},
		{`{"mcpServers":{"b":{"command":"c"},"a":{"command":"d"},"off":{"command":"e","disabled":true}}}`, `b: stdio c [] map[] ; a: stdio d [] map[] `},
		{`{"mcpServers":{"h":{"type":"streamableHttp","url":"https://x/${EMPTY}","headers":{"Authorization":"Bearer ${TOKEN}"}}}}`, `h: http https://x/ map[Authorization:Bearer to ken]`},
		{`{"mcpServers":{"h":{"transport":"sse","serverUrl":"https://x/"}}}`, `h: sse https://x/ map[]`},
		{`{"mcpServers":{"h":{"httpUrl":"https://x/"}}}`, `h:  https://x/ map[]`},
		{`{"mcpServers":{"h":{"type":"streamablehttp","url":"https://x/"},"l":{"type":"local","command":"c","tools":["*"]},"off":{"command":"e","enabled":false},"on":{"command":"e","enabled":true}}}`,
			`h: http https://x/ map[]; l: stdio c [] map[] ; on: stdio e [] map[] `},
		{`{"mcpServers":{"c":{"transport":{"type":"stdio","command":"c","args":["${HOME}"]},"oauth":{}},"h":{"transport":{"type":"streamableHttp","url":"https://x/"}},"off":{"transport":{"type":"stdio","command":"c"},"disabled":true}}}`,
			`c: stdio c ["/home/u"] map[] ; h: http https://x/ map[]`},
		{`{"mcpServers":{"e":{"command":"c","env":{"T":"${env:TOKEN}${env:X:-d}${env:-e}"}}}}`, `e: stdio c [] map[T:to kende] `},
		{`{"mcpServers":{"e":{"command":"c","args":["${env:}","a${env:}${TOKEN}"]}}}`, `e: stdio c ["${env:}" "a${env:}to ken"] map[] `},

		{`{"mcpServers":{"h":{"url":"https://x/","headers":{"A":"${N:-x${env:TOKEN}y}"}},"s":{"command":"c","args":["${TOKEN:-${HOME}}"]}}}`,
			`h: headers A: the text behind N:- has ${ in it, which it may not: write a plain text; s: args[0]: the text behind TOKEN:- has ${ in it, which it may not: write a plain text`},
		{`{"mcpServers":{"a":7}}`, `a: write an object, {…}, not the number that it is`},
		{`{"mcpServers":{"a":null}}`, `a: it has neither a command nor a url: give it one`},
		{`{"mcpServers":{"a":{"command":"c","args":"x"}}}`, `a: "args" takes no string`},
		{`{"mcpServers":{"a":{"command":"c","env":{"A":1}}}}`, `a: "env" takes no number`},
		{`{"mcpServers":{"a":{"command":"c","Command":"d"}}}`, `a: ambiguous member "Command"`},
		{`{"mcpServers":{"a":{"command":"c","env":{"A=B":"x"}}}}`, `a: env "A=B" cannot be set`},
		{`{"mcpServers":{"a":{"command":"c","env":{"A":"\u0000"}}}}`, `a: env "A" cannot be set`},
		{`{"mcpServers":{"a":{"command":"c","env":{"A":"${NO}"}},"b":{"command":"c"}}}`, `a: env A: the variable NO is not set: set it, or write ${NO:-TEXT}; b: stdio c [] map[] `},
		{`{"mcpServers":{"a":{"command":"c","env":{"A":"${env:NO}"}}}}`, `a: env A: the variable NO is not set: set it, or write ${NO:-TEXT}`},
		{`{"mcpServers":{"a":{"transport":7},"b":{"transport":{"transport":{}}},"c":{"transport":{"args":7}},"d":{"transport":null,"command":"c"}}}`,
			`a: "transport" takes a text or an object; b: "transport" takes a text or an object; c: "args" takes no number; d: stdio c [] map[] `},
		{`{"mcpServers":{"a":{"type":"http","transport":"streamable-http","url":"https://x/"},"b":{"type":"http","transport":{"type":"streamableHttp","url":"https://x/"},"headers":{"A":"b"}}}}`,
			`a: http https://x/ map[]; b: http https://x/ map[A:b]`},
		{`{"mcpServers":{"a":{"type":"http","transport":"sse","url":"https://x/"},"b":{"type":"http","transport":{"type":"sse","url":"https://x/"}}}}`,
			`a: "type" is "http" and "transport" "sse": say it once; b: "type" is in "transport" and beside it: say it once`},
		{`{"mcpServers":{"a":{"url":"https://x/","transport":{"serverUrl":"https://y/"}},"b":{"command":"c","transport":{"command":"d"}},"c":{"command":"c","args":["x"],"transport":{"args":["y","z"]}}}}`,
			`a: "url" is in "transport" and beside it: say it once; b: "command" is in "transport" and beside it: say it once; c: "args" is in "transport" and beside it: say it once`},
		{`{"mcpServers":{"a":{"command":"c","env":{"A":"x"},"transport":{"env":{"B":"y"}}},"b":{"url":"https://x/","headers":{"A":"x"},"transport":{"headers":{"B":"y"}}},"c":{"cwd":"/a","transport":{"command":"c","cwd":"/b"}}}}`,
			`a: "env" is in "transport" and beside it: say it once; b: "headers" is in "transport" and beside it: say it once; c: "cwd" is in "transport" and beside it: say it once`},
		{`{"mcpServers":{"a":{"command":"c","url":"https://x"}}}`, `a: it has both a command and a url: remove one`},
		{`{"mcpServers":{"a":{"type":"ws","url":"wss://x"}}}`, `a: type "ws" is not known: write stdio, http or sse`},
		{`{"mcpServers":{"a":{"type":"http","command":"x"}}}`, `a: type "http" does not go with it: remove the type`},
	} {
		servers, err := parse([]byte(s.text), env)
		got := fmt.Sprint(err)
		if err == nil {
			got = describe(servers)
		}
		if got != s.want {
			t.Errorf("%.120s\ngot  %s\nwant %s", s.text, got, s.want)
		}
	}
}

func many(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"s%d":{"command":"c"}`, i))
	}
	return strings.Join(list, ",")
}

func describe(servers []Server) string {
	var list []string
	for _, s := range servers {
		switch {
		case s.Wrong != nil:
			list = append(list, s.Key+": "+s.Wrong.Error())
		case s.Stdio():
			list = append(list, fmt.Sprintf("%s: stdio %s %q %v %s", s.Key, s.Command, s.Args, s.Env, s.Dir))
		default:
			list = append(list, fmt.Sprintf("%s: %s %s %v", s.Key, s.Type, s.URL, s.Headers))
		}
	}
	return strings.Join(list, "; ")
}

// TestReadFile has programs inherit the folder and the environment.
func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.json")
	if _, err := ReadFile(file, "/d", nil); !os.IsNotExist(err) {
		t.Error(err)
	}
	os.WriteFile(file, []byte(`{"mcpServers":{"a":{"command":"bin/x","env":{"A":"${B}"}},"b":{"command":"x","cwd":"sub"},"c":{"command":"bin/x","cwd":"/abs"},"d":{"url":"http://x"}}}`), 0o600)
	list, err := ReadFile(file, "/d", []string{"A=1", "B=2=3", "junk", "=x"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []wire.Program{
		{Command: "/d/bin/x", Dir: "/d", Env: map[string]string{"A": "2=3", "B": "2=3"}},
		{Command: "x", Dir: "/d/sub", Env: map[string]string{"A": "1", "B": "2=3"}},
		{Command: "/abs/bin/x", Dir: "/abs", Env: map[string]string{"A": "1", "B": "2=3"}},
		{},
	} {
		if got := list[i].Program; !reflect.DeepEqual(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
	}
	os.WriteFile(file, make([]byte, maxFile+1), 0o600)
	if _, err := ReadFile(file, "/", nil); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// FuzzFile has files of any bytes: what is read is within the bounds, and the
// aggregator takes each name.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"c","args":["${A}${B:-x}"],"env":{"X":"${A}"}},"a:b":{"url":"http://x","headers":{"H":"${A}"}}}}`))
	f.Add([]byte(`{"mcpServers":{"":{"command":"${"},"%":{},"__":{},"builtin":{"disabled":true}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		servers, err := parse(text, map[string]string{"A": "${A}${B}", "B": strings.Repeat("x", 1000)})
		if err != nil {
			return
		}
		size := 0
		internals := make(map[string]bool)
		for _, s := range servers {
			if err := jsonrpc.CheckServer(s.Name); err != nil || internals[s.Name] {
				t.Errorf("%q: %v", s.Key, err)
			}
			internals[s.Name] = true
			size += len(s.URL) + len(s.Command) + len(s.Dir) + len(strings.Join(s.Args, ""))
			for _, table := range []map[string]string{s.Env, s.Headers} {
				size += len(strings.Join(slices.Collect(maps.Values(table)), ""))
			}
			if s.Wrong == nil && s.Command == "" && s.URL == "" {
				t.Errorf("%q is nothing", s.Key)
			}
		}
		if size > maxTexts || len(servers) > maxServers {
			t.Errorf("%d servers, %d bytes", len(servers), size)
		}
		n := newNames(servers, ":", false)
		for _, s := range servers {
			name, _ := n.join(s.Name, "tool")
			if of, own := n.split(name); of == nil || of.Key+":"+own != s.Key+":tool" {
				t.Errorf("%q is %v's", s.Key, of)
			}
		}
	})
}
