// Package redact takes secrets out of texts before they are kept or shown.
//
// It goes over a text by pairs of bytes. At a pair with which something begins that
// may be a secret, or name one, it looks closer. However the text's writer escapes
// what stands in JSON, also in JSON inside a string, the same is found.
package redact

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// A Redactor takes secrets out of texts: what stands under a key that names
// a secret, in JSON (also in JSON within a string), in headers, queries,
// assignments and flags; what looks like a well-known kind of key; and the
// values that it was told. It prefers to take too much. What it cannot know
// are secrets that were encoded otherwise (in hex, compressed) or taken apart.
// The zero Redactor knows no values.
type Redactor struct {
	ValuesOnly bool // it takes out nothing but the values; set it before it is used

	clues atomic.Pointer[clues] // lasting, and what passing has

	mu      sync.Mutex // guards what follows
	lasting *clues     // nil: patterns
	passing []string   // the oldest first
}

// Add makes values known as secrets, also as they look quoted in JSON, in a URL
// and in base64. Values of less than six bytes are ignored.
func (r *Redactor) Add(values ...string) {
	if len(values) > 0 {
		r.change(func(cs *clues) { cs.addValues(values) })
	}
}

// maxPassing is how many values a Redactor knows that are secrets for a while.
const maxPassing = 64

// AddPassing makes a value known as Add does that is a secret for a while, as a token
// is that another one follows: of such values the newest 64 are known.
func (r *Redactor) AddPassing(value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passing = append(slices.DeleteFunc(r.passing, func(v string) bool { return v == value }), value)
	r.passing = r.passing[max(0, len(r.passing)-maxPassing):]
	r.arrange()
}

// Spare has texts be left as they are, though one names a secret by its form: as a
// reference to a secret does.
func (r *Redactor) Spare(texts ...string) {
	if len(texts) > 0 {
		r.change(func(cs *clues) {
			for _, text := range texts {
				cs.spare(text)
			}
		})
	}
}

// change changes the clues that last.
func (r *Redactor) change(f func(*clues)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	more := *cmp.Or(r.lasting, r.none())
	f(&more)
	r.lasting = &more
	r.arrange()
}

// arrange has texts be read by what is known now. Its caller holds mu.
func (r *Redactor) arrange() {
	all := *cmp.Or(r.lasting, r.none())
	all.addValues(r.passing)
	r.clues.Store(&all)
}

func (r *Redactor) current() *clues { return cmp.Or(r.clues.Load(), r.none()) }

// none are the clues where no value is known.
func (r *Redactor) none() *clues {
	if r.ValuesOnly {
		return new(clues)
	}
	return patterns
}

// JSON is Known for a value of JSON. It is not ok where what is left would be no JSON.
func (r *Redactor) JSON(value []byte) (left []byte, ok bool) {
	if r.clues.Load() == nil {
		return value, true
	}
	spans := r.current().spans(string(value), true)
	if len(spans) == 0 {
		return value, true
	}
	left = []byte(replace(string(value), len(value), spans))
	return left, json.Valid(left)
}

// NamesSecret reports whether a key names a secret.
func NamesSecret(key string) bool { return keySecrecy(key) != 0 }

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string {
	return replace(s, len(s), r.current().spans(s, false))
}

// Known returns s without the values that the Redactor was told, and with what
// may be a secret by its form or its name: for who has to see what somebody
// could hide so.
func (r *Redactor) Known(s string) string {
	return replace(s, len(s), r.current().spans(s, true))
}

// Preview returns the beginning of raw for people to read: valid UTF-8, at
// most max bytes, without secrets, and marked where it was cut. What it costs
// depends on max, not on raw.
func (r *Redactor) Preview(raw []byte, max int) string {
	cs := r.current()
	return cs.preview(window(raw, max, cs.margin), len(raw), max)
}

// PreviewString is Preview of a string.
func (r *Redactor) PreviewString(s string, max int) string {
	cs := r.current()
	return cs.preview(window(s, max, cs.margin), len(s), max)
}

// window returns the part of a text that is looked at for a preview of its first max
// bytes: those, and more until a view of what follows has margin bytes.
func window[T []byte | string](text T, max, margin int) string {
	n := margin
	for max+n < len(text) && len(decoded(viewOf(string(text[max:max+n]))).text) < margin {
		n *= 2
	}
	return string(text[:min(len(text), max+n)])
}

// preview makes the preview of a text of total bytes from its window. Only
// what starts before max is kept: of a secret that starts there the window
// holds enough to know it.
func (cs *clues) preview(window string, total, max int) string {
	spans := cs.spans(window, false)
	keep := min(len(window), max)
	for back := 0; back < utf8.UTFMax && keep < len(window) && keep > 0 && !utf8.RuneStart(window[keep]); back++ {
		keep--
	}
	s := strings.ToValidUTF8(replace(window, keep, spans), "\ufffd")
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

// spans returns the parts of src to be replaced, in order, not overlapping: all,
// or only the values that are known.
func (cs *clues) spans(src string, known bool) []span {
	v := viewOf(src)
	spans := cs.scan(v.text, known, nil)
	if u := decoded(v); u.rounds != nil {
		spans = append(spans, cs.scan(u.text, true, func(sp span) span { return escaping(v.text, u.source(sp)) })...)
	}
	if v.rounds != nil {
		for i := range spans {
			spans[i] = v.source(spans[i])
		}
		spans = append(spans, cs.scan(src, true, nil)...) // where it is no JSON
	}
	return joined(spans)
}

// scan returns what of a text is to be replaced, as it is found; place says which part
// of another text a known value is there, nil: it is of this one.
func (cs *clues) scan(src string, known bool, place func(span) span) []span {
	first := cs.first(src)
	if first == len(src) { // most words: they cost no memory
		return nil
	}
	if place == nil {
		place = func(sp span) span { return escaping(src, sp) }
	}
	s := scanner{src: src, known: known, place: place, spans: make([]span, 0, 8)}
	s.scan(cs, first)
	return s.spans
}

// joined returns spans in order, with those that overlap as one.
func joined(all []span) []span {
	if len(all) < 2 {
		return all
	}
	slices.SortFunc(all, func(a, b span) int { return a.start - b.start })
	list := all[:1]
	for _, sp := range all[1:] {
		last := &list[len(list)-1]
		if sp.start >= last.end {
			list = append(list, sp)
		} else if sp.end > last.end {
			last.end = sp.end
			last.quote = 0
		}
	}
	return list
}

// replace returns src up to keep with the spans replaced.
func replace(src string, keep int, spans []span) string {
	if len(spans) == 0 {
		return src[:keep]
	}
	out := make([]byte, 0, keep+len(spans)*len(Mark))
	at := 0
	for _, sp := range spans {
		if sp.start >= keep {
			break
		}
		quote := ""
		if sp.quote > 0 {
			quote = strings.Repeat(`\`, sp.quote-1) + `"`
		}
		out = append(out, src[at:sp.start]...)
		out = append(append(append(out, quote...), Mark...), quote...)
		at = sp.end
	}
	if at < keep {
		out = append(out, src[at:keep]...)
	}
	return string(out)
}
