package ledger

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// margin is how far past the end of a preview its text is looked at. What
// can be told from its beginning alone is told within it.
const margin = 512

// A Redactor takes secrets out of texts: what stands under a key that names
// a secret, in JSON (also in JSON within a string), in headers, queries,
// assignments and flags; what looks like a well-known kind of key; and the
// values that it was told. It prefers to take too much. What it cannot know
// are secrets that were encoded (base64, compressed) or taken apart.
// The zero Redactor knows no values.
type Redactor struct {
	exact atomic.Pointer[matcher]

	mu     sync.Mutex
	values map[string]bool // that exact finds
}

var patterns Redactor

// Preview returns the beginning of raw for people to read: valid UTF-8, at
// most max bytes, without secrets of a known form, and marked where it was
// cut. What it costs depends on max, not on raw.
func Preview(raw []byte, max int) string { return patterns.Preview(raw, max) }

// Redact returns s without secrets of a known form.
func Redact(s string) string { return patterns.Redact(s) }

// Add makes values known as secrets, also as they look quoted in JSON or
// in a URL. Values of less than six bytes are ignored.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = make(map[string]bool)
	}
	known := len(r.values)
	for _, v := range values {
		for _, form := range forms(v) {
			r.values[form] = true
		}
	}
	if len(r.values) > known {
		r.exact.Store(newMatcher(r.values))
	}
}

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string {
	b := []byte(s)
	spans := r.spans(b, make([]span, 0, 16))
	if len(spans) == 0 {
		return s
	}
	return string(replace(b, len(b), spans))
}

// Preview is the function Preview that knows r's values as well.
func (r *Redactor) Preview(raw []byte, max int) string {
	window := raw[:min(len(raw), max+r.margin())]
	return r.preview(window, len(raw), max)
}

func (r *Redactor) previewString(s string, max int) string {
	window := []byte(s[:min(len(s), max+r.margin())])
	return r.preview(window, len(s), max)
}

func (r *Redactor) word(s string) string { return r.previewString(s, wordMax) }

func (r *Redactor) appendWord(b []byte, key, s string) []byte {
	return appendText(append(b, key...), r.word(s))
}

func (r *Redactor) margin() int {
	if m := r.exact.Load(); m != nil && m.longest > margin {
		return m.longest
	}
	return margin
}

// preview makes the preview of a text of total bytes from its window. Only
// what starts before max is kept: of a secret that starts there the window
// holds enough to know it.
func (r *Redactor) preview(window []byte, total, max int) string {
	var room [16]span
	spans := r.spans(window, room[:0])
	keep := min(len(window), max)
	if len(spans) == 0 && total <= max && utf8.Valid(window) {
		return string(window)
	}
	for back := 0; back < utf8.UTFMax && keep < len(window) && keep > 0 && !utf8.RuneStart(window[keep]); back++ {
		keep--
	}
	s := string(replace(window, keep, spans))
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	if total <= max && len(s) <= max {
		return s
	}
	return cut(s, total, max)
}

// cut returns the beginning of s, at most max bytes with the mark that says so.
func cut(s string, total, max int) string {
	mark := "… [cut, " + strconv.Itoa(total) + " bytes]"
	if len(mark) > max {
		mark = ""
	}
	n := min(len(s), max-len(mark))
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// A span is a part of a text that is not kept.
type span struct {
	start, end int
	quote      int // the replacement needs quotes: one more than their backslashes
}

// spans returns the parts of src to be replaced, in order, not overlapping.
func (r *Redactor) spans(src []byte, spans []span) []span {
	s := scanner{src: src, spans: spans}
	s.scan()
	m := r.exact.Load()
	if m == nil {
		return s.spans
	}
	n := len(s.spans)
	all := m.find(src, s.spans)
	if len(all) == n {
		return all
	}
	slices.SortFunc(all, func(a, b span) int { return a.start - b.start })
	joined := all[:1]
	for _, sp := range all[1:] {
		last := &joined[len(joined)-1]
		if sp.start >= last.end {
			joined = append(joined, sp)
		} else if sp.end > last.end {
			last.end = sp.end
			last.quote = 0
		}
	}
	return joined
}

// replace returns src up to keep with the spans replaced.
func replace(src []byte, keep int, spans []span) []byte {
	out := make([]byte, 0, keep+len(spans)*len(redacted))
	at := 0
	for _, sp := range spans {
		if sp.start >= keep {
			break
		}
		out = append(out, src[at:sp.start]...)
		out = appendQuote(out, sp.quote)
		out = append(out, redacted...)
		out = appendQuote(out, sp.quote)
		at = sp.end
	}
	if at < keep {
		out = append(out, src[at:keep]...)
	}
	return out
}

func appendQuote(b []byte, quote int) []byte {
	if quote == 0 {
		return b
	}
	for range quote - 1 {
		b = append(b, '\\')
	}
	return append(b, '"')
}
