package rawjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct {
		in   string
		want error
	}{
		{`{}`, nil}, {` [ ] `, nil}, {`{"a":[1,-0.5e+3,"\u00e9\n",true,false,null,{}]}`, nil},
		{`12345678901234567890`, nil}, {`0`, nil}, {`""`, nil}, {deep(MaxDepth), nil},
		{deep(MaxDepth + 1), ErrDepth}, {strings.Repeat("[", 1<<20), ErrDepth},
		{strings.Repeat(`{"a":`, 1<<18), ErrDepth},
		{``, ErrSyntax}, {`{`, ErrSyntax}, {`{}x`, ErrSyntax}, {`{} {}`, ErrSyntax}, {`[1,]`, ErrSyntax}, {`[,1]`, ErrSyntax},
		{`{"a":1,}`, ErrSyntax}, {`{"a"}`, ErrSyntax}, {`{a:1}`, ErrSyntax}, {`{1:1}`, ErrSyntax}, {`01`, ErrSyntax}, {`1.`, ErrSyntax},
		{`.5`, ErrSyntax}, {`1e`, ErrSyntax}, {`-`, ErrSyntax}, {`+1`, ErrSyntax}, {`NaN`, ErrSyntax}, {`tru`, ErrSyntax}, {`"a`, ErrSyntax},
		{`"\x"`, ErrSyntax}, {`"\u12g4"`, ErrSyntax}, {"\"\n\"", ErrSyntax}, {"\"\x00\"", ErrSyntax}, {"[1 2]", ErrSyntax}, {"[1}", ErrSyntax},
		{"\"\xff\"", ErrUTF8}, {"\x00", ErrSyntax}, {"{}\x00", ErrSyntax},
	} {
		if err := Check([]byte(tt.in)); !errors.Is(err, tt.want) {
			t.Errorf("Check(%.40q) = %v, want %v", tt.in, err, tt.want)
		}
	}
}

// FuzzCheck compares with encoding/json, but for UTF-8 and depth.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\n",null]}`, `[`, `"\ud800"`, `-0`, "{\"a\":1}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		err := Check(in)
		if errors.Is(err, ErrUTF8) != !utf8.Valid(in) {
			t.Fatalf("UTF-8: %v", err)
		}
		if errors.Is(err, ErrUTF8) || errors.Is(err, ErrDepth) {
			return
		}
		if (err == nil) != json.Valid(in) {
			t.Fatalf("Check: %v, json.Valid: %v", err, json.Valid(in))
		}
	})
}

// TestObjectDepth has the depth that the caller allows.
func TestObjectDepth(t *testing.T) {
	in := []byte(`{"a":` + strings.Repeat("[", Deepest-1) + strings.Repeat("]", Deepest-1) + `}`)
	if !json.Valid(in) || Object(in, Deepest, nil) != nil {
		t.Error("refused what encoding/json takes")
	}
	if err := Object(in, Deepest-1, nil); !errors.Is(err, ErrDepth) {
		t.Errorf("one too deep: %v", err)
	}
}
