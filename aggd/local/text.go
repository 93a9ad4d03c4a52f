package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// text returns the page as text: HTML as markdown or as its content, or as it came.
func (p *page) text(ctx context.Context, format string) (string, error) {
	if format != "raw" && !p.textual() {
		return "", fmt.Errorf("the page is of the binary type %s; the format raw shows it all the same", p.kind)
	}
	source := p.decode()
	if format == "raw" || !p.isHTML() {
		return source, nil
	}
	return convert(ctx, source, format)
}

// convert runs a conversion and gives up waiting for it when ctx ends.
func convert(ctx context.Context, source, format string) (string, error) {
	type outcome struct {
		text string
		err  error
	}
	done := make(chan outcome, 1)
	go func() { // a conversion cannot be stopped; it ends by itself
		var o outcome
		defer func() {
			if r := recover(); r != nil {
				o = outcome{err: fmt.Errorf("the page cannot be converted: %v", r)}
			}
			done <- o
		}()
		if format == "content" {
			o.text, o.err = content(source)
			return
		}
		o.text, o.err = htmltomarkdown.ConvertString(source)
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return "", fmt.Errorf("the page cannot be converted (the format raw shows it): %w", o.err)
		}
		return o.text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *page) isHTML() bool { return p.kind == "text/html" || p.kind == "application/xhtml+xml" }

// textual reports whether the media type is one to read.
func (p *page) textual() bool {
	if strings.HasPrefix(p.kind, "text/") || strings.HasSuffix(p.kind, "+json") || strings.HasSuffix(p.kind, "+xml") ||
		strings.HasSuffix(p.kind, "+yaml") {
		return true
	}
	switch strings.TrimPrefix(strings.TrimPrefix(p.kind, "application/"), "x-") {
	case "json", "xml", "javascript", "ecmascript", "yaml", "toml", "ndjson", "jsonlines", "sh", "shellscript", "sql", "graphql",
		"www-form-urlencoded", "tex", "latex", "rtf", "pem-file":
		return true
	}
	return false
}

// skipped are the elements without content for a reader.
var skipped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Svg: true, atom.Nav: true,
	atom.Footer: true, atom.Aside: true, atom.Form: true, atom.Iframe: true, atom.Head: true, atom.Button: true,
}

// blocks are the elements that stand on lines of their own.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Section: true, atom.Article: true, atom.Main: true, atom.Header: true, atom.Li: true,
	atom.Ul: true, atom.Ol: true, atom.Table: true, atom.Tr: true, atom.Pre: true, atom.Blockquote: true, atom.Br: true,
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Dt: true, atom.Dd: true, atom.Hr: true,
}

// content returns the words of a page: of its article or main part where it
// has one, without navigation and the like.
func content(source string) (string, error) {
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return "", err
	}
	from := element(root, atom.Article)
	if from == nil {
		from = element(root, atom.Main)
	}
	if from == nil {
		from = root
	}
	var w words
	w.node(from, false)
	return strings.TrimSpace(w.String()), nil
}

func element(n *html.Node, a atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.DataAtom == a {
			return d
		}
	}
	return nil
}

// words is text in which spaces run together.
type words struct {
	strings.Builder
	space bool // one is due before the next word
	fresh bool // at the start of a line
}

// node writes the text below n.
func (w *words) node(n *html.Node, pre bool) {
	switch {
	case n.Type == html.TextNode && pre:
		w.WriteString(n.Data)
		w.space, w.fresh = false, strings.HasSuffix(n.Data, "\n")
		return
	case n.Type == html.TextNode:
		w.text(n.Data)
		return
	case n.Type == html.ElementNode && skipped[n.DataAtom]:
		return
	}
	block := n.Type == html.ElementNode && blocks[n.DataAtom]
	if block {
		w.line()
	}
	for c := range n.ChildNodes() {
		w.node(c, pre || n.DataAtom == atom.Pre)
	}
	if block {
		w.line()
	}
}

func (w *words) text(s string) {
	for _, r := range s {
		if unicode.IsSpace(r) {
			w.space = true
			continue
		}
		if w.space && !w.fresh {
			w.WriteByte(' ')
		}
		w.space, w.fresh = false, false
		w.WriteRune(r)
	}
}

// line starts a line, unless at the start of one.
func (w *words) line() {
	if !w.fresh && w.Len() > 0 {
		w.WriteByte('\n')
	}
	w.space, w.fresh = false, true
}

// check refuses paging that makes no sense.
func (p paging) check() error {
	if p.StartIndex < 0 {
		return errors.New("start_index is negative")
	}
	if p.MaxLength < 1 {
		return errors.New("max_length is less than 1")
	}
	return nil
}

// show returns a part of text under a head that says which part.
func (p *page) show(text string, part paging) string {
	start := border(text, part.StartIndex)
	end := len(text)
	if part.MaxLength < len(text)-start {
		end = border(text, start+part.MaxLength)
	}
	if end == start && start < len(text) { // at least one character
		_, n := utf8.DecodeRuneInString(text[start:])
		end = start + n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "URL: %s\nDomain: %s\n", p.url.Redacted(), p.url.Hostname())
	if p.code != 200 {
		fmt.Fprintf(&b, "Status: %s\n", p.status)
	}
	for _, n := range p.notes {
		b.WriteString(n + "\n")
	}
	fmt.Fprintf(&b, "Content length: %d\nShowing: %d-%d\nRemaining: %d\n\n%s", len(text), start, end, len(text)-end, text[start:end])
	return b.String()
}

// border returns the last border between characters at or before byte i.
func border(text string, i int) int {
	if i >= len(text) {
		return len(text)
	}
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}
