package jsonrpc

import (
	"bytes"
	"encoding/json"
	"testing"

	"hutch/aggd/rawjson"
)

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "builtin", "a__b", "__", "a/b", "a\x00", "a\nb"} {
		if CheckServer(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, good := range []string{"a", "a_b", "GitHub-2", "local"} {
		if err := CheckServer(good); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{"a__b": "a b", "a__b__c": "a b__c", "a___b": "a _b", "a__": "a "} {
		if s, own, ok := SplitName(name); !ok || s+" "+own != want {
			t.Errorf("%s: %s %s %v", name, s, own, ok)
		}
	}
	for uri, want := range map[string]string{"capsem://a/b://c/d": "a b://c/d", "capsem://a/": "a "} {
		if s, own, ok := SplitURI(uri); !ok || s+" "+own != want {
			t.Errorf("%s: %s %s %v", uri, s, own, ok)
		}
	}
	for _, bad := range []string{"__b", "a_b", "", "capsem:///x", "http://a/b"} {
		_, _, named := SplitName(bad)
		_, _, addressed := SplitURI(bad)
		if named || addressed {
			t.Errorf("%q is split", bad)
		}
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{Request(7, "a\"b", []byte(`{"x":1e400}`)), `{"jsonrpc":"2.0","id":7,"method":"a\"b","params":{"x":1e400}}`},
		{Request(7, "ping", nil), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{Notification("n", nil), `{"jsonrpc":"2.0","method":"n"}`},
		{Response([]byte(`"x"`), []byte(`{}`), nil), `{"jsonrpc":"2.0","id":"x","result":{}}`},
		{Response(nil, nil, Errorf(CodeParse, "%s", "<é\n>").Raw()), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"<é\n>"}}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, id, method, params, result, err string
		hasID                               bool
	}{
		{`{"id":1,"method":"m","params":{"id":2}}`, "1", "m", `{"id":2}`, "", "", true},
		{`{"id":null,"error":{"code":1}}`, "null", "", "", "", `{"code":1}`, false},
		{`{"id":"a","result":null,"error":null}`, `"a"`, "", "", "null", "", true},
		{`{"id":1,"id":2,"m\u0065thod":"x"}`, "2", "x", "", "", "", true},
	} {
		m, err := Parse([]byte(c.in))
		got := []string{string(m.ID), m.Method, string(m.Params), string(m.Result), string(m.Error)}
		for i, want := range []string{c.id, c.method, c.params, c.result, c.err} {
			if got[i] != want || err != nil || m.HasID() != c.hasID {
				t.Errorf("%s: %q %v", c.in, got, err)
			}
		}
	}
	if m, err := Parse([]byte(`{"id":5,"method":`)); err == nil || string(m.ID) != "5" {
		t.Errorf("cut off: %s %v", m.ID, err)
	}
}

// FuzzParse encodes again what was parsed: it must be the same message, and what
// the strict reader takes the other one takes too.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"m"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","Id":2,"result":[1e400]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := Parse(in)
		strict, fault := ParseStrict(in)
		if fault == nil && (err != nil || !bytes.Equal(m.Encode(), strict.Encode())) {
			t.Fatalf("%q: %s by one, %s by the other (%v)", in, m.Encode(), strict.Encode(), err)
		}
		if err != nil || m.Method == "" && m.Result == nil && m.Error == nil {
			return
		}
		line := m.Encode()
		again, err := Parse(line)
		if err != nil || !json.Valid(line) || !bytes.Equal(line, again.Encode()) {
			t.Fatalf("%q became %q, then %q (%v)", in, line, again.Encode(), err)
		}
	})
}

func TestErrors(t *testing.T) {
	sent := json.RawMessage(`{"code":-5,"message":"no","data":[1]}`)
	if e := Received(sent); e.Code != -5 || e.Error() != "no" || !bytes.Equal(e.Raw(), sent) {
		t.Errorf("%+v", e)
	}
	if e := Received(json.RawMessage(`[]`)); e.Code != CodeInternal || e.Message == "" {
		t.Errorf("%+v", e)
	}
	if code := rawjson.Get(Errorf(CodeBusy, "full").Raw(), "code"); string(code) != "-32005" {
		t.Error(string(code))
	}
	e := Errorf(CodeInvalid, "no")
	e.Data = json.RawMessage(`{"code":1}`)
	if raw := e.Raw(); string(raw) != `{"code":-32600,"message":"no","data":{"code":1}}` {
		t.Error(string(raw))
	}
}

func TestRevisions(t *testing.T) {
	for offered, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-11-25": Newest, "1999-01-01": Newest, "2026-07-28": Newest, "": Newest} {
		if got := Agree(offered); got != want {
			t.Errorf("%s: %s, want %s", offered, got, want)
		}
	}
}
