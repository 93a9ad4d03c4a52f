package ledger

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// leastSecret is the length below which a value is no secret: it would be
// found everywhere.
const leastSecret = 6

// forms returns how a secret value can look in a text: as it is, quoted in
// JSON once and twice, and escaped in a URL.
func forms(v string) []string {
	if len(v) < leastSecret || strings.Contains(redacted, v) {
		return nil
	}
	once, html := quoted(v, false), quoted(v, true)
	return []string{
		v, once, html, quoted(once, false), quoted(html, true),
		strings.ReplaceAll(once, "/", `\/`), ascii(once), ascii(html),
		url.QueryEscape(v), url.PathEscape(v),
	}
}

// quoted returns v as it stands between the quotes of a JSON string.
func quoted(v string, html bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(v) != nil {
		return v
	}
	s := strings.TrimSuffix(b.String(), "\n")
	return s[1 : len(s)-1]
}

// ascii returns v, JSON's inside of a string, with all but ASCII escaped, as
// Python's encoder writes it.
func ascii(v string) string {
	var b []byte
	for _, r := range v {
		if r < 0x80 {
			b = append(b, byte(r))
			continue
		}
		for _, u := range utf16(r) {
			b = append(b, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
		}
	}
	return string(b)
}

func utf16(r rune) []rune {
	if r < 0x10000 {
		return []rune{r}
	}
	r -= 0x10000
	return []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
}

// A matcher finds any of many values in one pass (Wu and Manber, with
// blocks of two bytes): it looks at the block at the end of a window as long
// as the shortest value and skips as far as no value has that block nearer
// to its end.
type matcher struct {
	window  int // length of the shortest value, at most 255
	longest int
	skip    [1 << 12]uint8
	ends    map[uint16][]string // values by the block at the end of their window
}

func block(a, b byte) uint16 { return (uint16(a)<<4 ^ uint16(b)) & (1<<12 - 1) }

func newMatcher(values map[string]bool) *matcher {
	m := &matcher{window: 255, ends: make(map[uint16][]string)}
	for v := range values {
		m.window = min(m.window, len(v))
		m.longest = max(m.longest, len(v))
	}
	for i := range m.skip {
		m.skip[i] = uint8(m.window - 1)
	}
	for v := range values {
		for i := 1; i < m.window; i++ {
			b := block(v[i-1], v[i])
			m.skip[b] = min(m.skip[b], uint8(m.window-1-i))
		}
		last := block(v[m.window-2], v[m.window-1])
		m.ends[last] = append(m.ends[last], v)
	}
	return m
}

// find appends a span for each value in src. The spans may overlap.
func (m *matcher) find(src []byte, spans []span) []span {
	for i := m.window - 1; i < len(src); {
		b := block(src[i-1], src[i])
		if s := m.skip[b]; s > 0 {
			i += int(s)
			continue
		}
		start := i - m.window + 1
		longest := 0
		for _, v := range m.ends[b] {
			if len(v) > longest && bytes.HasPrefix(src[start:], []byte(v)) {
				longest = len(v)
			}
		}
		if longest > 0 {
			spans = append(spans, span{start: start, end: start + longest})
		}
		i++
	}
	return spans
}
