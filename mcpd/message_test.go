package mcpd

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		code int
		id   string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, 0, `1`},
		{`{"jsonrpc":"2.0","method":"x","params":null}`, 0, ``},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, 0, `1`},
		{`{`, jsonrpc.CodeParse, ``}, {``, jsonrpc.CodeParse, ``}, {"\xff", jsonrpc.CodeParse, ``}, {`nothing`, jsonrpc.CodeParse, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x"}}`, jsonrpc.CodeParse, ``},
		{strings.Repeat("[", 1<<20), jsonrpc.CodeParse, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat(`{"a":`, 1<<16) + "1" + strings.Repeat("}", 1<<16) + `}`, jsonrpc.CodeParse, ``},
		{`[]`, jsonrpc.CodeInvalid, ``}, {` [{"jsonrpc":"2.0","id":1,"method":"x"}]`, jsonrpc.CodeInvalid, ``}, {`"x"`, jsonrpc.CodeInvalid, ``}, {`null`, jsonrpc.CodeInvalid, ``},
		{`{}`, jsonrpc.CodeInvalid, ``}, {`{"id":1,"method":"x"}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"1.0","id":1,"method":"x"}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":2.0,"id":1,"method":"x"}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"2.0","id":"a"}`, jsonrpc.CodeInvalid, `"a"`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"2.0","id":1,"method":""}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":null,"method":"x"}`, jsonrpc.CodeInvalid, ``}, {`{"jsonrpc":"2.0","id":{},"method":"x"}`, jsonrpc.CodeInvalid, ``},
		{`{"jsonrpc":"2.0","id":true,"method":"x"}`, jsonrpc.CodeInvalid, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`, jsonrpc.CodeInvalid, `1`}, {`{"jsonrpc":"2.0","id":1,"method":"x","params":"p"}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`, jsonrpc.CodeInvalid, ``}, {`{"jsonrpc":"2.0","id":1,"method":"x","Method":"y"}`, jsonrpc.CodeInvalid, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","na\u006de":"b"}}`, jsonrpc.CodeInvalid, `1`},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","NAME":"b"}}`, jsonrpc.CodeInvalid, `1`},
	} {
		m, err := parse([]byte(tt.in))
		code := 0
		if err != nil {
			code = err.Code
		}
		if code != tt.code || string(m.ID) != tt.id {
			t.Errorf("parse(%.80s): id %s, %v, want id %s, code %d", tt.in, m.ID, err, tt.id, tt.code)
		}
	}
}

// FuzzParse replaces the name in a request that parses: the rest must decode
// to what it was.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"x":9007199254740993}}}`), "b")
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","method":"m","params":{ "n\u0061me" : "\ud800" , "a":[1e400]}}`), "\"")
	f.Fuzz(func(t *testing.T, in []byte, name string) {
		m, err := parse(in)
		if err != nil || m.params.get(pName) == nil {
			return
		}
		before, after := decodeNumbers(t, m.params.raw), decodeNumbers(t, m.params.with(pName, name))
		if got, ok := after["name"].(string); !ok || got != string([]rune(name)) {
			t.Fatalf("name %q became %v", name, after["name"])
		}
		delete(before, "name")
		delete(after, "name")
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q: %v became %v", in, before, after)
		}
	})
}

func decodeNumbers(t *testing.T, data []byte) map[string]any {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
