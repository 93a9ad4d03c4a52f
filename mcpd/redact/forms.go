package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Least is the length in bytes below which a value is no secret: it would be
// found everywhere.
const Least = 6

// forms returns how a secret value can look in a text: as it is, quoted in
// JSON once and twice, escaped in a URL, and in base64.
func forms(v string) []string {
	if len(v) < Least || strings.Contains(redacted, v) {
		return nil
	}
	once, html := quoted(v, false), quoted(v, true)
	return append(encoded(v),
		v, once, html, quoted(once, false), quoted(html, true),
		strings.ReplaceAll(once, "/", `\/`), ascii(once), ascii(html),
		url.QueryEscape(v), url.PathEscape(v),
	)
}

// encoded returns how base64 has v, in both alphabets, wherever in what is encoded it
// stands, as after the user's name of Basic: those characters that are of v alone.
func encoded(v string) (list []string) {
	for before := range 3 {
		text := strings.Repeat("\x00", before) + v
		from, to := (before*8+5)/6, len(text)*8/6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			list = append(list, e.EncodeToString([]byte(text))[from:to])
		}
	}
	return list
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
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, u)
		}
	}
	return string(b)
}
