package rawjson

import (
	"bytes"
	"encoding/json"

	"github.com/tailscale/hujson"
)

// maxCommented is the length in bytes of the longest text of which Plain takes comments
// out.
const maxCommented = 1 << 20

// Plain returns JSON of at most 1 MiB that has comments, or commas behind the last
// member, without them: blanks are in their place. Any other text, and what is nested
// deeper than MaxDepth, is returned as it is.
func Plain(text []byte) []byte {
	if len(text) > maxCommented || json.Valid(text) {
		return text
	}
	if _, depth := Measure(text); depth > MaxDepth { // the parser calls itself for each level
		return text
	}
	plain, err := hujson.Standardize(append(bytes.Clone(text), '\n')) // it may end in a comment
	if err != nil {
		return text
	}
	return plain
}

// Measure returns how many values a text has, but for those that are alone, and how deep
// they are nested. It is not parsed for that; what stands in comments does not count.
func Measure(text []byte) (values, depth int) {
	now := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			values++
			now++
			depth = max(depth, now)
		case ',':
			values++
		case '}', ']':
			now--
		case '"':
			i = skipString(text, i) - 1
		case '/':
			i += max(0, commentLen(text[i:])-1)
		}
	}
	return values, depth
}

// commentLen returns the length of the comment that text begins with; 0: none.
func commentLen(text []byte) int {
	for start, end := range map[string]string{"//": "\n", "/*": "*/"} {
		if !bytes.HasPrefix(text, []byte(start)) {
			continue
		}
		if n := bytes.Index(text[2:], []byte(end)); n >= 0 {
			return 2 + n + len(end)
		}
		return len(text)
	}
	return 0
}
