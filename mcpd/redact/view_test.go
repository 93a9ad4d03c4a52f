package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// A writer says which characters a program escapes in JSON beside those that have to
// be, and how.
type writer struct {
	name    string
	escapes func(r rune, rnd *rand.Rand) bool
	upper   bool // the hexadecimal digits
	slash   bool // \/ for /
	long    bool // \u0022 for \", and so on
}

func among(some string) func(rune, *rand.Rand) bool {
	return func(r rune, _ *rand.Rand) bool { return strings.ContainsRune(some, r) }
}

func beyond(last rune, some string) func(rune, *rand.Rand) bool {
	return func(r rune, _ *rand.Rand) bool { return r > last || strings.ContainsRune(some, r) }
}

var writers = []writer{
	{name: "plain", escapes: among("")},
	{name: "python", escapes: beyond('~', "")},
	{name: "go", escapes: among("<>&\u2028\u2029")},
	{name: "gson", escapes: among("=&<>'")},
	{name: ".net", escapes: beyond('~', "+&<>'\"`"), upper: true, long: true},
	{name: "php", escapes: beyond('~', ""), slash: true},
	{name: "perl", escapes: among("\x7f"), slash: true},
	{name: "all", escapes: func(rune, *rand.Rand) bool { return true }, long: true},
	{name: "ALL", escapes: func(rune, *rand.Rand) bool { return true }, upper: true, long: true},
	{name: "some", escapes: func(_ rune, rnd *rand.Rand) bool { return rnd.IntN(3) == 0 }, slash: true},
	{name: "letters", escapes: func(r rune, rnd *rand.Rand) bool { return r >= 'a' && r <= 'z' && rnd.IntN(2) == 0 }},
}

// quote returns s as a string of JSON.
func (w *writer) quote(s string, rnd *rand.Rand) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		short := strings.IndexRune("\"\\\b\f\n\r\t", r)
		switch {
		case w.escapes(r, rnd) && (short < 0 || w.long):
			for _, u := range utf16.AppendRune(nil, r) {
				hex := fmt.Sprintf("%04x", u)
				if w.upper {
					hex = strings.ToUpper(hex)
				}
				b.WriteString(`\u` + hex)
			}
		case short >= 0:
			b.WriteString(`\` + `"\bfnrt`[short:short+1])
		case r == '/' && w.slash:
			b.WriteString(`\/`)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// nested returns an object whose member says text, in JSON in as many strings as there
// are writers after the first.
func nested(name, text string, by []*writer, rnd *rand.Rand) string {
	for _, w := range by {
		text = "{" + w.quote(name, rnd) + ":" + w.quote(text, rnd) + `,"n":1}`
		name = "text"
	}
	return text
}

// innermost returns what nested was told, of name in the innermost object.
func innermost(t *testing.T, name, text string, deep int) string {
	for i := range deep {
		var of map[string]any
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		at := "text"
		if i == deep-1 {
			at = name
		}
		text, _ = of[at].(string)
	}
	return text
}

// FuzzWriters has programs that escape in different ways write a secret, also in JSON
// inside strings, and looks for it in what is left.
func FuzzWriters(f *testing.F) {
	for i := range 64 {
		f.Add("aB3+/=&<>'`\"\\xyz"[i%8:]+"é😀-tail", uint64(i))
	}
	f.Add("with\nnew\tlines\x01and \u2028\x7f", uint64(7))
	f.Add(`C:\users\u0041bc/`, uint64(8))
	f.Fuzz(func(t *testing.T, secret string, seed uint64) {
		if len(secret) < Least || !utf8.ValidString(secret) || strings.ContainsAny(secret, "\ufffd[]") || strings.HasSuffix(secret, `\`) || strings.ContainsAny(secret[:1], "02") {
			return // as others could be a part of an escape before it, or be the beginning of one
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		var by []*writer
		for range 1 + rnd.IntN(3) {
			by = append(by, &writers[rnd.IntN(len(writers))])
		}
		var r Redactor
		r.Add(secret)
		text := nested("text", "before: "+secret+" after", by, rnd)
		for _, got := range []string{r.Redact(text), r.Known(text)} {
			if said := innermost(t, "text", got, len(by)); said != "before: [redacted] after" {
				t.Fatalf("%s\nleaves %s\nwhich says %q", text, got, said)
			}
		}
		for _, max := range []int{rnd.IntN(len(text)), len(text) / 2, len(text) * 3 / 4} {
			if got := viewOf(r.Preview([]byte(text), max)).text; strings.Contains(got, secret[:Least]) && !strings.Contains("before: after", secret[:Least]) {
				t.Fatalf("%s\nat %d shows the head: %s", text, max, got)
			}
		}
		if strings.Trim(secret, ".*") == "" {
			return
		}
		text = nested("pa\u0073sword", secret, by, rnd)
		if said := innermost(t, "password", new(Redactor).Redact(text), len(by)); said != "[redacted]" {
			t.Fatalf("%s\nsays %q", text, said)
		}
	})
}

// What a view changes can be found in the text that it was made of.
func TestView(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`a\u002Bb\/c`, `a+b/c`},
		{`\\u002B \\\u002B \\\\u002B`, `+ \\+ +`},
		{`\\\\\u002B`, `\\\\+`},
		{`\u0022 \u005c \u000A \u001F`, `\" \\ \n \u001f`},
		{`\\u0022 \\u005C \\u000a`, `\\\" \\\\ \\n`},
		{`\u005cu002B`, `+`},
		{`\ud83d\ude00 \\uD83D\\uDE00 \ud83d \ud83d\\ude00`, `😀 😀 \ud83d \ud83d\\ude00`},
		{`\u12 \u \ux123 \u+123 \`, `\u12 \u \ux123 \u+123 \`},
	} {
		v := viewOf(tt.in)
		if v.text != tt.want {
			t.Errorf("%s is seen as %s, not %s", tt.in, v.text, tt.want)
		}
	}
	v := viewOf(`a\u002Bb\/c\u005cu002Bd`) // a+b/c+d
	for _, tt := range []struct {
		sp   span
		want string
	}{
		{span{start: 0, end: 1}, `a`}, {span{start: 1, end: 2}, `\u002B`}, {span{start: 0, end: 2}, `a\u002B`},
		{span{start: 2, end: 4}, `b\/`}, {span{start: 4, end: 5}, `c`}, {span{start: 5, end: 7}, `\u005cu002Bd`},
	} {
		if sp := v.source(tt.sp); `a\u002Bb\/c\u005cu002Bd`[sp.start:sp.end] != tt.want {
			t.Errorf("%v is %v, not %s", tt.sp, sp, tt.want)
		}
	}
}

// TestURLs has a secret be found however what writes URLs escapes it, also where that
// is done to JSON, in JSON, and again.
func TestURLs(t *testing.T) {
	var r Redactor
	r.Add("pw+/ =ü\"%41'x")
	python := url.PathEscape("pw+/ =ü\"%41'x")
	for _, escaped := range []string{
		python, strings.NewReplacer("%2F", "/").Replace(python), strings.ToLower(python),
		"pw%2B%2F%20%3D%C3%BC%22%2541'x", "pw%2b%2f+%3d%c3%bc%22%2541%27x", url.QueryEscape("pw+/ =ü\"%41'x"), "%70w%2b/%20=ü%22%2541'%78",
		url.QueryEscape(python), url.QueryEscape(`pw+/ =\u00fc\"%41'x`), strings.ReplaceAll(python, "%", `\u0025`),
		url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("pw+/ =ü\"%41'x"))),
	} {
		text := `{"text":"a%20` + escaped + `%20b","n":1}`
		if got := r.Redact(text); got != `{"text":"a%20[redacted]%20b","n":1}` && !strings.HasPrefix(got, `{"text":"a%20[redacted]g%3D`) {
			t.Errorf("%s leaves %s", text, got)
		}
		for max := range len(text) {
			if got := r.Preview([]byte(text), max); strings.Contains(got, "w%2") {
				t.Fatalf("%s at %d shows the head: %s", text, max, got)
			}
		}
	}
	for _, text := range []string{`{"t":"%5C\\npw+/ =ü\"%41'x"}`, `{"t":"%5C\\n%70w+/ =ü\"%41'x"}`, `{"t":"%5Cpw+/ =%C3%BC%22%41'x\u0022"}`} {
		if left, ok := r.JSON([]byte(text)); !ok || strings.Contains(string(left), "'x") {
			t.Errorf("%s leaves %s", text, left)
		}
	}
	for _, text := range []string{"100% of %zz and %4", "token=abc%26user=bob", `{"password":"a%22b","x":1}`} {
		if got, want := r.Known(text), text; got != want {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	if got := r.Redact("http://x/?token=abc%26def&user=bob"); got != "http://x/?token=[redacted]&user=bob" {
		t.Error(got)
	}
	r.Add("%41%42%43")
	if got := r.Redact("ABC %41%42%43"); got != "ABC [redacted]" {
		t.Error(got)
	}
}
