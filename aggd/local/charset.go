package local

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
)

// metaCharset finds the charset that a page names in its first bytes.
var metaCharset = regexp.MustCompile(`(?i)<meta[^>]+charset\s*=\s*["']?\s*([a-z0-9_:.-]+)`)

// marks are the bytes at the start of a text that tell its charset, whatever
// else is said of it.
var marks = []struct{ mark, charset string }{
	{"\xef\xbb\xbf", "utf-8"}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"},
}

// decode returns the body as UTF-8. It knows the charsets that browsers know; of
// others the ASCII remains, and a note says so.
func (p *page) decode() string {
	body, name := p.body, p.charset()
	for _, m := range marks {
		if rest, found := bytes.CutPrefix(body, []byte(m.mark)); found {
			body, name = rest, m.charset
			break
		}
	}
	e, known := charset.Lookup(name)
	if e == nil || known == "replacement" { // one that browsers refuse
		p.note("Charset: " + name + " is not known; only ASCII is shown right")
		e = unicode.UTF8
	}
	text, err := e.NewDecoder().Bytes(body)
	if err != nil {
		text = body
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// charset returns the charset that the page is said to be in, or seems to be.
func (p *page) charset() string {
	name := p.params["charset"]
	if m := metaCharset.FindSubmatch(p.body[:min(len(p.body), 1024)]); name == "" && p.isHTML() && m != nil {
		if name = string(m[1]); strings.HasPrefix(strings.ToLower(name), "utf-16") {
			name = "utf-8" // or it could not have been read
		}
	}
	if name == "" && p.textual() && !p.cut && !utf8.Valid(p.body) {
		name = "windows-1252"
	}
	return cmp.Or(name, "utf-8")
}
