package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Least is the length in bytes below which a value is no secret: it would be
// found everywhere.
const Least = 6

// quotings is how many strings of JSON a value is looked for in, each in the next.
const quotings = 3

// forms returns how a view of a text can have a secret value: as it is, quoted in
// JSON, and in base64; each also as it is where what URLs escape is decoded, where a
// blank may be a +.
func forms(v string) []string {
	if len(v) < Least || strings.Contains(Mark, v) {
		return nil
	}
	list := append(encoded(v), v)
	for form, n := v, 0; n < quotings; n++ {
		form = quoted(form)
		list = append(list, form)
	}
	for i, form := range list {
		seen := viewOf(form)
		list[i] = seen.text
		if u := decoded(seen).text; len(u) >= Least {
			list = append(list, u, strings.ReplaceAll(u, " ", "+"))
		}
	}
	return list
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

// quoted returns v as it stands between the quotes of a JSON string, in a view.
func quoted(v string) string {
	text, _ := json.Marshal(v)
	return viewOf(string(text[1 : len(text)-1])).text
}
