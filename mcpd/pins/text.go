package pins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hutch/fs"
)

// maxShown is how long a Text becomes before it is cut off.
const maxShown = 1 << 20

func (p pin) display() string {
	s := shown{}
	fmt.Fprintf(&s.b, "digest %s\n", p.digest)
	if p.text == nil {
		s.b.WriteString("(too long to be kept, or a secret in it is no text: only its digest is known)\n")
		return s.b.String()
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(p.text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return s.b.String()
	}
	s.value("", v)
	if s.cut {
		s.b.WriteString("(cut off here: it is too long to be shown)\n")
	}
	return s.b.String()
}

// shown is a Text in the making.
type shown struct {
	b   strings.Builder
	cut bool
}

func (s *shown) line(way, value string) {
	if s.cut = s.cut || s.b.Len()+len(way)+len(value) > maxShown; !s.cut {
		fmt.Fprintf(&s.b, "%s %s\n", way, value)
	}
}

func (s *shown) value(way string, v any) {
	switch v := v.(type) {
	case map[string]any:
		s.members(way, v)
	case []any:
		if len(v) == 0 {
			s.line(way, "[]")
		}
		for i, e := range v {
			if s.cut {
				return
			}
			s.value(fmt.Sprintf("%s[%d]", way, i), e)
		}
	case string:
		for l := range strings.Lines(v) {
			s.line(way, quoted(l))
		}
		if v == "" {
			s.line(way, `""`)
		}
	default:
		text, _ := json.Marshal(v)
		s.line(way, string(text))
	}
}

func (s *shown) members(way string, v map[string]any) {
	if len(v) == 0 {
		s.line(way, "{}")
	}
	if way != "" {
		way += "."
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if s.cut {
			return
		}
		shown := name
		if name == "" || strings.ContainsFunc(name, fs.NotIn("_-$")) {
			shown = quoted(name)
		}
		s.value(way+shown, v[name])
	}
}

// quoted returns s as a string of C. What has no shape of its own is escaped, also
// what hides text from people that a model reads.
func quoted(s string) string {
	text := strconv.Quote(s)
	if !strings.ContainsFunc(text, hides) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hides(r) {
			fmt.Fprintf(&b, `\U%08x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hides says whether a character that counts as printable is not seen.
func hides(r rune) bool {
	return r >= 0x7f && unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
