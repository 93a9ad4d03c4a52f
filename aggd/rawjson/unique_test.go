package rawjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestUnique(t *testing.T) {
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"k%d":{"a":1},`, i)
	}
	for _, tt := range []struct {
		text string
		want error
	}{
		{`{}`, nil},
		{`{"a":1,"b":{"a":1,"A":2},"c":[{"a":1},{"a":1}]}`, nil},
		{`"x"`, nil},
		{`{"a":1,"a":1}`, ErrAmbiguous},
		{`{"a":1,"\u0061":1}`, ErrAmbiguous},
		{`{"path":1,"PATH":1}`, ErrAmbiguous},
		{`{"k":1,"` + "\u212a" + `":1}`, ErrAmbiguous},
		{`{"x":[[{"b":1,"a":2,"b":3}]]}`, ErrAmbiguous},
		{`{"\ud800":1,"\ud801":1}`, ErrAmbiguous},
		{"{\"\xff\":1,\"\xfe\":1}", ErrAmbiguous},
		{`{` + many.String() + `"z":1}`, nil},
		{`{` + many.String() + `"k500":1}`, ErrAmbiguous},
		{`{` + many.String() + `"K500":1}`, ErrAmbiguous},
		{strings.Repeat("[", 512) + strings.Repeat("]", 512), nil},
		{strings.Repeat("[", 513) + strings.Repeat("]", 513), ErrDepth},
		{strings.Repeat(`{"a":`, 1<<20), ErrDepth},
		{`{"a":1`, ErrSyntax},
		{`{"a":1}x`, ErrSyntax},
		{`{"a" 1}`, ErrSyntax},
		{`{"a":tru}`, ErrSyntax},
		{``, ErrSyntax},
	} {
		if err := Unique([]byte(tt.text)); !errors.Is(err, tt.want) {
			t.Errorf("%.60q: %v, want %v", tt.text, err, tt.want)
		}
	}
	small := []byte(`{"path":"/x","edits":[{"old":"a","new":"b"},{"old":"c","new":"d"}],"options":{"dry":true}}`)
	if n := testing.AllocsPerRun(100, func() { Unique(small) }); n != 0 && !raced {
		t.Errorf("%v allocations for an ordinary text", n)
	}
}

func TestDistinct(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"s%d":1,`, i)
	}
	for _, tt := range []struct {
		text string
		want error
	}{
		{`{"a":{"a":{"A":1}},"b":[{"a":1},{"A":1}]}`, nil},
		{`{"x":{"args":1,"Args":2}}`, ErrAmbiguous},
		{`{"x":[[{"args":1,"arg\u017f":2}]]}`, ErrAmbiguous},
		{`{"x":{"ς":1,"σ":2}}`, ErrAmbiguous},
		{`{"x":{"ß":1,"ẞ":2}}`, ErrAmbiguous},
		{`{"x":{"ß":1,"ss":2}}`, nil},
		{`{"x":{` + many.String() + `"\u017f50":1}}`, ErrAmbiguous},
		{`{"x":{` + many.String() + `"Σ":1,"ς":1}}`, ErrAmbiguous},
	} {
		if err := Distinct([]byte(tt.text)); !errors.Is(err, tt.want) {
			t.Errorf("%.60q: %v, want %v", tt.text, err, tt.want)
		}
	}
}

// What Unique takes has as many members decoded as it has written, and what it
// refuses for two of a name has fewer, or some that differ only in case.
func FuzzUnique(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `{"a":{"b":[1,{"c":2}]},"A":1}`, `{"\u0061":1,"a":2}`, `[{"x":1},{"x":1,"x":2}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Unique(text)
		if errors.Is(err, ErrDepth) {
			return
		}
		if errors.Is(err, ErrSyntax) == json.Valid(text) && !errors.Is(err, ErrAmbiguous) {
			t.Fatalf("%q: %v, valid %v", text, err, json.Valid(text))
		}
		if !json.Valid(text) {
			return
		}
		var v any
		json.Unmarshal(text, &v)
		written, kept := membersWritten(text), membersOf(v)
		if err == nil && written != kept {
			t.Fatalf("%q: %d members, %d of them decoded", text, written, kept)
		}
		if err != nil && written == kept && !foldable(v) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// membersWritten counts the members of all objects in a text.
func membersWritten(text []byte) (n int) {
	for _, e := range Elements(text) {
		n += membersWritten(e)
	}
	Walk(text, func(_ []byte, start, end int) { n += 1 + membersWritten(text[start:end]) })
	return n
}

func membersOf(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += membersOf(e)
		}
	case map[string]any:
		for _, e := range v {
			n += 1 + membersOf(e)
		}
	}
	return n
}

// foldable tells whether an object has names that differ only in case.
func foldable(v any) bool {
	m, _ := v.(map[string]any)
	for a := range m {
		for b := range m {
			if a != b && strings.EqualFold(a, b) {
				return true
			}
		}
	}
	return false
}

func BenchmarkUnique(b *testing.B) {
	small := []byte(`{"path":"/x","edits":[{"old":"a","new":"b"},{"old":"c","new":"d"}],"options":{"dry":true}}`)
	b.SetBytes(int64(len(small)))
	b.ReportAllocs()
	for b.Loop() {
		Unique(small)
	}
}
