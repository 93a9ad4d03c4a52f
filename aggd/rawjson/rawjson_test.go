package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	for _, c := range []struct {
		text, path, want string
	}{
		{`{"a":1}`, "a", "1"},
		{` { "a" : { "b" : [1,{"c":2}] , "d" : "x\"}" } } `, "a.d", `"x\"}"`},
		{`{"a":{"b":[1,{"c":2}]}}`, "a.b", `[1,{"c":2}]`},
		{`{"a":1,"a":12345678901234567890}`, "a", "12345678901234567890"},
		{`{"\u0061":1}`, "a", "1"},
		{`{"b":{"a":1}}`, "a", ""},
		{`{"a":"\\"}`, "a", `"\\"`},
		{`{"a":null,"b":-1e5}`, "b", "-1e5"},
		{`[1]`, "a", ""},
		{`5`, "a", ""},
		{``, "a", ""},
		{`{}`, "a", ""},
	} {
		if got := Get([]byte(c.text), strings.Split(c.path, ".")...); string(got) != c.want {
			t.Errorf("%s of %s: %s, want %s", c.path, c.text, got, c.want)
		}
	}
}

func TestGetPath(t *testing.T) {
	in := []byte(`{"a": {"b" : "x", "\u0063":[1, 2 ]}, "d":9007199254740993, "d":"last"}`)
	for _, tt := range []struct {
		path []string
		want string
	}{
		{[]string{"a", "b"}, `"x"`}, {[]string{"a", "c"}, `[1, 2 ]`}, {[]string{"d"}, `"last"`}, {[]string{"e"}, ``}, {[]string{"d", "e"}, ``},
	} {
		if got := Get(in, tt.path...); string(got) != tt.want {
			t.Errorf("Get(%q) = %s, want %s", tt.path, got, tt.want)
		}
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		text, path, want string
	}{
		{`{"a" : 1 , "b":2}`, "a", `{"a" : 9 , "b":2}`},
		{`{"a":1,"a":2}`, "a", `{"a":9,"a":9}`},
		{`{"m":{ "t":"x"},"m":{"t":"y"}}`, "m.t", `{"m":{ "t":9},"m":{"t":9}}`},
		{`{"b":1}`, "a", `{"b":1}`},
		{`{"m":5}`, "m.t", `{"m":5}`},
		{`[]`, "a", `[]`},
	} {
		if got := Set([]byte(c.text), []byte("9"), strings.Split(c.path, ".")...); string(got) != c.want {
			t.Errorf("%s of %s: %s, want %s", c.path, c.text, got, c.want)
		}
	}
}

func TestSetString(t *testing.T) {
	in := []byte(`{ "name" : "git__hub","big":9007199254740993, "x":"<&>\u003c" }`)
	got, err := SetString(in, "a\"b\\\n\x01é\u2028", "name")
	want := `{ "name" : "a\"b\\\n\u0001é` + "\u2028" + `","big":9007199254740993, "x":"<&>\u003c" }`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := SetString(in, "x", "nothing"); err == nil {
		t.Error("set what is not there")
	}
}

func TestElements(t *testing.T) {
	got := Elements([]byte(` [ 1 , {"a":[2]} ,"x,]" ] `))
	if string(bytes.Join(got, []byte("|"))) != `1|{"a":[2]}|"x,]"` {
		t.Errorf("%s", got)
	}
	if Elements([]byte(`{}`)) != nil || len(Elements([]byte(`[]`))) != 0 {
		t.Error("no array, or an empty one")
	}
}

func TestSkim(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":5,"result":{"id":6}}`:                                       "5",
		`{"result":{"id":6,"x":["id",{"id":7}]},"jsonrpc":"2.0","id":"a"}`: `"a"`,
		`{"result":"\"id\":9,","id" : -3 }`:                                "-3",
		`{"a":"id","b":1}`:                                                 "",
		`{"id":{"x":1}}`:                                                   "",
		`{"id":[1]}`:                                                       "",
		`data: {"id":4}`:                                                   "4",
		`{"id":5`:                                                          "",
		`{"id":5,`:                                                         "5",
		`rubbish`:                                                          "",
	} {
		s := &Skim{}
		for i := range len(text) {
			s.Write([]byte{text[i]})
		}
		if got := s.ID(); string(got) != want {
			t.Errorf("id of %s: %s, want %s", text, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "<&>", "ä", "\u2028", "a\"b\\", "\n\x00", "\xff", "\r\t\x01\x7f", "é\xff\ufffd"} {
		var back string
		if err := json.Unmarshal(Quote(s), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("%q: %s %v", s, Quote(s), err)
		}
		if String(Quote(s)) != back {
			t.Errorf("%q: %q", s, String(Quote(s)))
		}
	}
}

func FuzzWalk(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x"]},"id":5}`))
	f.Add([]byte(`{"a" "b" ,,`))
	f.Add([]byte(`[1,2`))
	f.Fuzz(func(t *testing.T, text []byte) {
		Walk(text, func(key []byte, start, end int) { _ = text[start:end] })
		object := Object(text, Deepest, func([]byte, int, int) error { return nil }) == nil
		Elements(text)
		Line(text)
		s := &Skim{}
		s.Write(text)
		if !json.Valid(text) {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(text, &m); (err == nil && m != nil) != object {
			t.Fatalf("object %t: %v", object, err)
		}
		for key, value := range m {
			if key == strings.ToValidUTF8(key, "") && !strings.ContainsRune(key, '\ufffd') && string(Get(text, key)) != string(value) {
				t.Errorf("%q is %s, want %s", key, Get(text, key), value)
			}
			if !json.Valid(Set(text, []byte("1"), key)) {
				t.Errorf("setting %q makes %s", key, Set(text, []byte("1"), key))
			}
		}
	})
}

// FuzzSetString replaces the first member's value: everything else must
// decode to what it was.
func FuzzSetString(f *testing.F) {
	f.Add([]byte(`{"name":"x","b":[9007199254740993,{"c":"\u00e9"}]}`), "new")
	f.Add([]byte(`{"a":{"a":1}, "b" : null }`), "\"\\\x00\xff")
	f.Fuzz(func(t *testing.T, in []byte, s string) {
		if Check(in) != nil {
			return
		}
		name, found := "", false
		Object(in, MaxDepth, func(n []byte, _, _ int) error {
			if !found {
				name, found = string(n), true
			}
			return nil
		})
		if !found {
			return
		}
		out, err := SetString(in, s, name)
		if err != nil || Check(out) != nil {
			t.Fatalf("SetString: %v, %q", err, out)
		}
		before, after := decode(t, in), decode(t, out)
		before[name] = strings.ToValidUTF8(s, "\ufffd")
		if got, ok := after[name].(string); ok && got != before[name] {
			before[name] = runes(s) // ToValidUTF8 makes one mark of a run of bad bytes
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}

func runes(s string) string { return string([]rune(s)) }

func decode(t *testing.T, data []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDeleteMerge(t *testing.T) {
	for _, tt := range []struct{ in, names, want string }{
		{`{"a":1, "b" : [2] ,"c":3}`, "b", `{"a":1,"c":3}`},
		{`{"a":1,"b":2}`, "a", `{"b":2}`},
		{` { "a" : 1 } `, "a", `{}`},
		{`{"a":1,"\u0061":2}`, "a", `{}`},
		{`{"a":1}`, "x", `{"a":1}`},
		{`{}`, "x", `{}`},
	} {
		if got := Delete([]byte(tt.in), tt.names); string(got) != tt.want {
			t.Errorf("%s without %s: %s, want %s", tt.in, tt.names, got, tt.want)
		}
	}
	for _, tt := range []struct{ obj, more, want string }{
		{``, `{"x":1}`, `{"m":{"x":1}}`},
		{`{}`, `{"x":1}`, `{"m":{"x":1}}`},
		{`{"a":1e400}`, `{"x":1}`, `{"m":{"x":1},"a":1e400}`},
		{`{"a":1,"m":{"y":2,"x":0}}`, `{"x":1}`, `{"a":1,"m":{"x":1,"y":2}}`},
		{`{"m":null}`, `{"x":1}`, `{"m":{"x":1}}`},
		{`{"m":{}}`, `{}`, `{"m":{}}`},
	} {
		if got := Merge([]byte(tt.obj), []byte(tt.more), "m"); string(got) != tt.want {
			t.Errorf("%s and %s: %s, want %s", tt.obj, tt.more, got, tt.want)
		}
	}
	for in, want := range map[string]string{`{"b": [1e400, {"d":1,"c":"<"}],"a":1}`: `{"a":1,"b":[1e400,{"c":"\u003c","d":1}]}`, ``: ``} {
		if got, err := Canonical([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
}

func FuzzDeleteMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":2}`), []byte(`{"b":3}`), "a")
	f.Fuzz(func(t *testing.T, obj, more []byte, name string) {
		isObject := func(b []byte) bool { return json.Valid(b) && bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) }
		if !isObject(obj) || !isObject(more) {
			return
		}
		for _, got := range [][]byte{Delete(obj, name), Merge(obj, more, name)} {
			if !isObject(got) {
				t.Errorf("%s, %s, %q: %s", obj, more, name, got)
			}
		}
	})
}
