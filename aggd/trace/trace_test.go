package trace

import (
	"encoding/json"
	"strings"
	"testing"

	"hutch/aggd/rawjson"
)

const (
	id     = "4bf92f3577b34da6a3ce929d0e0e4736"
	span   = "00f067aa0ba902b7"
	parent = "00-" + id + "-" + span + "-01"
)

func TestParse(t *testing.T) {
	zeros := strings.Repeat("0", 32)
	for _, tt := range []struct{ in, want string }{
		{parent, parent},
		{"00-" + id + "-" + span + "-00", "00-" + id + "-" + span + "-00"},
		{"00-" + id + "-" + span + "-ff", "00-" + id + "-" + span + "-03"}, // flags that nobody knows
		{"cc-" + id + "-" + span + "-01", parent},                          // of a version to come
		{"cc-" + id + "-" + span + "-01-what-the-future-will-be-like", parent},
		{"cc-" + id + "-" + span + "-01.what", ""},
		{parent + "-", ""},
		{parent + " ", ""},
		{"ff-" + id + "-" + span + "-01", ""},
		{"00-" + zeros + "-" + span + "-01", ""},
		{"00-" + id + "-0000000000000000-01", ""},
		{"00-" + strings.ToUpper(id) + "-" + span + "-01", ""},
		{"00-" + id + "-" + strings.ToUpper(span) + "-01", ""},
		{"0A-" + id + "-" + span + "-01", ""},
		{"00-" + id + "-" + span + "-0G", ""},
		{"00-" + id + "-" + span + "-1", ""},
		{"00_" + id + "_" + span + "_01", ""},
		{"00-" + id[:31] + "g-" + span + "-01", ""},
		{"00-" + id[:31] + "\n-" + span + "-01", ""},
		{id, ""},
		{"", ""},
		{"rubbish", ""},
	} {
		c, ok := Parse(tt.in)
		if got := c.String(); ok != (tt.want != "") || ok && got != tt.want || !ok && !c.IsZero() {
			t.Errorf("%q: %q, %v", tt.in, got, ok)
		}
	}
}

func TestParseID(t *testing.T) {
	for in, want := range map[string]bool{
		id: true, parent: false, "": false, id[1:]: false, id + "0": false, strings.ToUpper(id): false, strings.Repeat("0", 32): false, id[:31] + "\x00": false,
	} {
		if _, ok := ParseID(in); ok != want {
			t.Errorf("%q: %v", in, ok)
		}
	}
}

func TestState(t *testing.T) {
	for in, want := range map[string]bool{
		"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE": true, "a@b=c": true, "a=b , , c=d": true, "0a_-*/=~ !": true,
		"": false, ",": false, "a": false, "a=": false, "=b": false, "A=b": false, "a=b,a=c": false, "a=b=c": false, "a=b\n": false, "a=é": false,
		"a=" + strings.Repeat("x", 257): false, strings.Repeat("a=b,", 200): false,
	} {
		if got := ValidState(in); got != want {
			t.Errorf("%.40q: %v", in, got)
		}
	}
}

func TestBaggage(t *testing.T) {
	for in, want := range map[string]bool{
		"userId=Am%C3%A9lie,serverNode=DF%2028,isProduction=false": true, "a=": true, "a=b;c": true, " a = b ; c = d , e=f ": true, "a=b=c": true,
		"": false, "a": false, "=b": false, "a=b,": false, "a b=c": false, "a=b c": false, "a=\"b\"": false, "a=b\n": false, "a=\x7f": false, "a=é": false, "a=b;;": false, "a\\=b": false,
		"a=" + strings.Repeat("x", 8190): true, "a=" + strings.Repeat("x", 8191): false,
		strings.Repeat("a=b,", 63) + "c=d": true, strings.Repeat("a=b,", 64) + "c=d": false,
	} {
		if got := ValidBaggage(in); got != want {
			t.Errorf("%.40q: %v", in, got)
		}
	}
}

func TestFrom(t *testing.T) {
	if c := From(parent, "a=b"); c.String() != parent || c.State != "a=b" {
		t.Errorf("%v %q", c, c.State)
	}
	if c := From(parent, "rubbish"); c.String() != parent || c.State != "" {
		t.Errorf("%v %q", c, c.State)
	}
	a, b := From("rubbish", "a=b"), From("", "")
	if a.ID() == b.ID() || a.State != "" || len(a.ID()) != 32 || a.Flags&Sampled == 0 {
		t.Errorf("%v %v", a, b)
	}
	if c := a.Child(); c.ID() != a.ID() || c.Span == a.Span || c.Parent != a.Span || c.Child().Parent != c.Span {
		t.Errorf("%v is a child of %v", c, a)
	}
	if (Context{}).ID() != "" || !(Context{}).IsZero() {
		t.Error("none is one")
	}
}

func TestPut(t *testing.T) {
	c, _ := Parse(parent)
	with := c
	with.State = "a=b"
	for _, tt := range []struct {
		in   string
		c    Context
		want string
	}{
		{``, c, `{"_meta":{"traceparent":"P"}}`},
		{`{}`, c, `{"_meta":{"traceparent":"P"}}`},
		{` { } `, c, ` {"_meta":{"traceparent":"P"} } `},
		{`{"name":"x" , "n":1.0}`, c, `{"_meta":{"traceparent":"P"},"name":"x" , "n":1.0}`},
		{`{"a":1,"_meta":{ "progressToken":7}}`, c, `{"a":1,"_meta":{"traceparent":"P", "progressToken":7}}`},
		{`{"_meta":{"traceparent":"rubbish","x":1},"a":1}`, c, `{"_meta":{"traceparent":"P","x":1},"a":1}`},
		{`{"_meta":{"traceparent":7,"traceparent":"q"}}`, c, `{"_meta":{"traceparent":"P"}}`},
		{`{"_meta":{"tr\u0061ceparent":"q"}}`, c, `{"_meta":{"traceparent":"P"}}`},
		{`{"_meta":{"tracestate":"evil\r\n"}}`, c, `{"_meta":{"traceparent":"P"}}`},
		{`{"_meta":{"tracestate":{"x":1}}}`, with, `{"_meta":{"traceparent":"P","tracestate":"a=b"}}`},
		{`{}`, with, `{"_meta":{"traceparent":"P","tracestate":"a=b"}}`},
		{`{"_meta":{"TraceParent":"q","x":1,"TRACE\u0053TATE":"q","trace\u017ftate":"q"}}`, c, `{"_meta":{"traceparent":"P","x":1}}`},
		{`{"_meta":{"baggage":"a=b , c=%20;p;q=r"}}`, c, `{"_meta":{"traceparent":"P","baggage":"a=b , c=%20;p;q=r"}}`},
		{`{"_meta":{"baggage":"a=b\r\nx: y"}}`, c, `{"_meta":{"traceparent":"P"}}`},
		{`{"_meta":{"baggage":["a=b"]}}`, c, `{"_meta":{"traceparent":"P"}}`},
		{`{"_meta":{"Baggage":"a=b"}}`, c, `{"_meta":{"traceparent":"P"}}`},
		{`{"_meta":null}`, c, `{"_meta":null}`},
		{`{"_meta":[]}`, c, `{"_meta":[]}`},
		{`[]`, c, `[]`},
	} {
		in := []byte(tt.in)
		if got := string(Put(in, tt.c)); got != strings.ReplaceAll(tt.want, `"P"`, `"`+parent+`"`) || string(in) != tt.in {
			t.Errorf("%s: %s", tt.in, got)
		}
	}
}

// FuzzTrace has what was taken be given back as it was, and nothing else get
// through.
func FuzzTrace(f *testing.F) {
	f.Add(parent, "a=b,c=d", `{"_meta":{"traceparent":"x","tracestate":1},"a":[1]}`)
	f.Add("cc-"+id+"-"+span+"-09-x", "", `{}`)
	f.Add("", "=", `{"_meta":{}}`)
	f.Add("", "", `{"_meta":{"TraceParent":"x","baggage":"a=b\n"}}`)
	f.Fuzz(func(t *testing.T, parent, state, params string) {
		if c, ok := Parse(parent); ok {
			if again, ok := Parse(c.String()); !ok || again != c {
				t.Fatalf("%q: %v, then %v", parent, c, again)
			}
			if _, ok := ParseID(c.ID()); !ok {
				t.Fatalf("%q: the id %q", parent, c.ID())
			}
		}
		c := From(parent, state).Child()
		if c.IsZero() || strings.ContainsAny(c.String()+c.State, "\r\n\x00") {
			t.Fatalf("%q %q: %v", parent, state, c)
		}
		if rawjson.Check([]byte(params)) != nil {
			return
		}
		out := Put([]byte(params), c)
		if !json.Valid(out) {
			t.Fatalf("%s: %s", params, out)
		}
		if meta := rawjson.Get(out, "_meta"); len(meta) > 0 && meta[0] == '{' && isObject(out) {
			if b := rawjson.Get(meta, Baggage); b != nil && !ValidBaggage(rawjson.String(b)) {
				t.Fatalf("%s: %s has the baggage %s", params, out, b)
			}
			if p, s := InMeta(meta); p != c.String() || s != c.State {
				t.Fatalf("%s: %s has %q %q", params, out, p, s)
			}
		}
	})
}
