package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"hutch/fs"
)

func decodeTOML(text []byte) (map[string]any, error) {
	text = bytes.TrimPrefix(text, bom)
	doc := map[string]any{}
	if err := boundTOML(text); err != nil {
		return doc, err
	}
	return doc, toml.Unmarshal(text, &doc)
}

// boundTOML refuses what is too deep or has too many values. A key makes a table
// for each of its dots. What does not parse, Unmarshal says better.
func boundTOML(text []byte) error {
	var n count
	var p unstable.Parser
	p.Reset(text)
	table := 0 // depth of the last header
	for p.NextExpression() {
		e := p.Expression()
		var err error
		if e.Kind == unstable.KeyValue {
			err = n.addPair(e, table)
		} else {
			table, err = n.addKey(e, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addKey counts the parts of a key, each as many values, and returns how deep its value
// is.
func (n *count) addKey(of *unstable.Node, depth int) (int, error) {
	parts := 0
	for it := of.Key(); it.Next(); {
		parts++
	}
	return depth + parts, n.add(parts*maxValues/maxParts, depth+parts)
}

// addPair counts a key and what is in its value.
func (n *count) addPair(pair *unstable.Node, depth int) error {
	depth, err := n.addKey(pair, depth)
	if err != nil {
		return err
	}
	return n.addTOML(pair.Value(), depth)
}

// addTOML counts a value and what is in it.
func (n *count) addTOML(value *unstable.Node, depth int) error {
	err := n.add(1, depth)
	for it := value.Children(); err == nil && it.Next(); {
		if in := it.Node(); in.Kind == unstable.KeyValue {
			err = n.addPair(in, depth)
		} else {
			err = n.addTOML(in, depth+1)
		}
	}
	return err
}

// A line is one of TOML that says something, with the lines that its value
// takes: where it stands in the text, and what it is about.
type line struct {
	start, end int
	header     bool     // of a table
	path       []string // of the table, or the key with that of its table before it
	value      string   // of a key, if it is a string
	list       int      // where the list begins that is its value, behind the bracket; 0: it is none
	empty      bool     // nothing is in that
}

// tomlLines returns what a text says, line by line.
func tomlLines(text []byte) (lines []line, err error) {
	var p unstable.Parser
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		var l line
		first, last := -1, 0
		var key []string
		for it := e.Key(); it.Next(); {
			raw := it.Node().Raw
			if key = append(key, string(it.Node().Data)); first < 0 {
				first = int(raw.Offset)
			}
			last = int(raw.Offset + raw.Length)
		}
		l.start = bytes.LastIndexByte(text[:first], '\n') + 1
		if e.Kind == unstable.KeyValue {
			l.path = append(slices.Clone(table), key...)
			l.value = string(e.Value().Data)
			if e.Value().Kind == unstable.Array {
				l.list = last + bytes.IndexByte(text[last:], '[') + 1
				l.empty = e.Value().Child() == nil
			}
			last = int(e.Raw.Offset + e.Raw.Length)
		} else {
			table, l.path, l.header = key, key, true
		}
		l.end = len(text)
		if n := bytes.IndexByte(text[last:], '\n'); n >= 0 {
			l.end = last + n + 1
		}
		lines = append(lines, l)
	}
	return lines, p.Error()
}

// insertTOML adds a table at the end, or where the servers are a list in
// brackets, an entry at the start of that.
func insertTOML(c *Client, text []byte, name string, entry []field) ([]byte, error) {
	start := len(text) - len(bytes.TrimPrefix(text, bom))
	lines, err := tomlLines(text[start:])
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if c.list && !l.header && slices.Equal(l.path, []string{c.key}) && l.list > 0 {
			item := inlineTOML(entry)
			if !l.empty {
				item += ", "
			}
			at := start + l.list
			return slices.Concat(text[:at], []byte(item), text[at:]), nil
		}
	}
	newline := newlineOf(text)
	var b strings.Builder
	if len(text) > start && !bytes.HasSuffix(text, []byte("\n")) {
		b.WriteString(newline)
	}
	if len(text) > start {
		b.WriteString(newline)
	}
	if c.list {
		fmt.Fprintf(&b, "[[%s]]%s", c.key, newline)
	} else {
		fmt.Fprintf(&b, "[%s.%s]%s", c.key, tomlKey(name), newline)
	}
	for _, f := range entry {
		fmt.Fprintf(&b, "%s = %s%s", f.key, jsonValue(f.value), newline)
	}
	return slices.Concat(text, []byte(b.String())), nil
}

// tomlKey returns a name as TOML has it in a key.
func tomlKey(name string) string {
	if strings.ContainsFunc(name, fs.NotIn("_-")) {
		return jsonValue(name)
	}
	return name
}

// inlineTOML returns an entry on one line.
func inlineTOML(entry []field) string {
	var words []string
	for _, f := range entry {
		words = append(words, f.key+" = "+jsonValue(f.value))
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// removeTOML takes out the lines of a server, or the entry of a list in
// brackets if it stands there as hutch writes it.
func removeTOML(c *Client, text []byte, name string, entry []field) ([]byte, error) {
	start := len(text) - len(bytes.TrimPrefix(text, bom))
	lines, err := tomlLines(text[start:])
	if err != nil {
		return nil, err
	}
	of := c.linesOf(lines, name)
	if len(of) == 0 {
		return cutOnce(text, inlineTOML(entry))
	}
	var is []byte
	at := 0
	for _, l := range of {
		from := start + l.start
		if l.header { // the empty line before it goes with it
			from = emptyBefore(text, from)
		}
		is = append(is, text[at:max(at, from)]...)
		at = start + l.end
	}
	return append(is, text[at:]...), nil
}

// linesOf returns the lines that are about a server.
func (c *Client) linesOf(lines []line, name string) (of []line) {
	if !c.list {
		for _, l := range lines {
			if len(l.path) > 1 && l.path[0] == c.key && l.path[1] == name {
				of = append(of, l)
			}
		}
		return of
	}
	var entry []line // those since the last [[key]]
	named := false
	end := func() {
		if named {
			of = append(of, entry...)
		}
		entry, named = nil, false
	}
	for _, l := range lines {
		switch {
		case l.header && slices.Equal(l.path, []string{c.key}):
			end()
		case len(l.path) == 0 || l.path[0] != c.key || !l.header && entry == nil:
			continue
		}
		entry = append(entry, l)
		named = named || slices.Equal(l.path, []string{c.key, "name"}) && l.value == name
	}
	end()
	return of
}

// emptyBefore returns where the empty line begins that ends at from, or from.
func emptyBefore(text []byte, from int) int {
	for _, end := range []string{"\n\r\n", "\n\n"} {
		if bytes.HasSuffix(text[:from], []byte(end)) {
			return from - len(end) + 1
		}
	}
	return from
}

// cutOnce takes an entry out of a list on a line, with the comma behind it, or
// before it if it is the last. It is found if it is written as hutch writes it.
func cutOnce(text []byte, entry string) ([]byte, error) {
	for _, with := range []string{entry + ", ", ", " + entry, entry} {
		if bytes.Count(text, []byte(with)) == 1 {
			return bytes.Replace(text, []byte(with), nil, 1), nil
		}
	}
	return nil, errForm
}
