package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

var bom = []byte("\ufeff") // which some editors put before all

// readJSON returns a file that may have comments and commas after the last
// member. One that is empty is an empty object.
func readJSON(text []byte) (*hujson.Value, *hujson.Object, error) {
	text = bytes.TrimPrefix(text, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	var n count
	if err := n.add(rawjson.Measure(text)); err != nil {
		return nil, nil, err
	}
	// The parser wants a newline behind a comment, which not all files end in.
	// It gets a text of its own, which the value shares, and changes with it.
	v, err := hujson.Parse(append(bytes.Clone(text), '\n'))
	if err != nil {
		return nil, nil, err
	}
	v.AfterExtra = bytes.TrimSuffix(v.AfterExtra, []byte("\n"))
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, nil, errors.New("no object")
	}
	return &v, o, nil
}

func decodeJSON(text []byte) (map[string]any, error) {
	v, o, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	if name := twice(o, true); name != "" {
		return nil, fmt.Errorf("%s is there twice", fs.QuoteLine(fs.Shorten(name)))
	}
	v.Standardize()
	d := json.NewDecoder(bytes.NewReader(v.Pack()))
	d.UseNumber()
	doc := map[string]any{}
	return doc, d.Decode(&doc)
}

// twice returns a name that an object, or with deep a member of it, has twice;
// "": none. Programs do not agree on which of them counts.
func twice(o *hujson.Object, deep bool) string {
	seen := make(map[string]bool, len(o.Members))
	for i := range o.Members {
		name := o.Members[i].Name.Value.(hujson.Literal).String()
		if seen[name] {
			return name
		}
		seen[name] = true
		if inner, ok := o.Members[i].Value.Value.(*hujson.Object); ok && deep {
			if name := twice(inner, false); name != "" {
				return name
			}
		}
	}
	return ""
}

// insertJSON adds a server at the end, written as what stands before it.
func insertJSON(c *Client, text []byte, name string, entry []field) ([]byte, error) {
	v, root, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	gap, unit := gapOf(root, "\n  "), ""
	if i := strings.LastIndexByte(gap, '\n'); i >= 0 {
		unit = gap[i+1:]
	}
	i := member(root, c.key)
	if i < 0 {
		addMember(root, c.key, &hujson.Object{}, gap, "\n")
		i = len(root.Members) - 1
	}
	servers, ok := root.Members[i].Value.Value.(*hujson.Object)
	if !ok { // null
		servers = &hujson.Object{}
		root.Members[i].Value.Value = servers
	}
	inner := gapOf(servers, gap+unit)
	value, err := hujson.Parse(jsonText(entry, inner, unit))
	if err != nil {
		return nil, err
	}
	addMember(servers, name, value.Value, inner, gap)
	return packJSON(v, text), nil
}

// removeJSON takes a server out, and leaves the comments around it.
func removeJSON(c *Client, text []byte, name string, _ []field) ([]byte, error) {
	v, root, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	i := member(root, c.key)
	if i < 0 {
		return nil, errForm
	}
	servers, ok := root.Members[i].Value.Value.(*hujson.Object)
	if !ok || member(servers, name) < 0 {
		return nil, errForm
	}
	dropMember(servers, member(servers, name))
	return packJSON(v, text), nil
}

// packJSON returns a value as text, with the mark before it that was has.
func packJSON(v *hujson.Value, was []byte) []byte {
	is := v.Pack()
	if bytes.HasPrefix(was, bom) {
		is = append(bytes.Clone(bom), is...)
	}
	return is
}

// member returns the place of a member of an object, -1 if it has none so named.
func member(o *hujson.Object, name string) int {
	for i := range o.Members {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			return i
		}
	}
	return -1
}

// gapOf returns the blanks that stand before a member of an object, as before
// its last one; otherwise is for one that has none.
func gapOf(o *hujson.Object, otherwise string) string {
	if len(o.Members) == 0 {
		return otherwise
	}
	return string(blanks(o.Members[len(o.Members)-1].Name.BeforeExtra))
}

// blanks returns what stands behind the last comment: the blanks, from the
// newline before them if there is one.
func blanks(extra hujson.Extra) []byte {
	tail := extra[len(bytes.TrimRight(extra, " \t\r\n")):]
	if i := bytes.LastIndexByte(tail, '\n'); i > 0 && tail[i-1] == '\r' {
		return tail[i-1:]
	} else if i > 0 {
		return tail[i:]
	}
	return tail
}

// addMember adds a member behind gap; end stands before the brace of an object
// that was empty. A comment behind the last member stays there, and where that
// one has a comma, the new one has one, too.
func addMember(o *hujson.Object, name string, value hujson.ValueTrimmed, gap, end string) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: hujson.Value{Value: value}}
	if gap != "" {
		m.Value.BeforeExtra = hujson.Extra(" ")
	}
	if len(o.Members) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0 && strings.Contains(gap, "\n") {
		o.AfterExtra = hujson.Extra(end)
	}
	if n := len(o.Members); n > 0 && o.Members[n-1].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{}
	}
	comments := bytes.TrimRight(o.AfterExtra, " \t\r\n")
	tail := bytes.Clone(o.AfterExtra[len(comments):])
	m.Name.BeforeExtra = glue(comments, []byte(gap))
	o.AfterExtra = tail
	o.Members = append(o.Members, m)
}

// dropMember removes a member. Comments before and behind it stay.
func dropMember(o *hujson.Object, i int) {
	m := o.Members[i]
	comments := bytes.TrimRight(m.Name.BeforeExtra, " \t\r\n")
	comments = append(bytes.Clone(comments), bytes.TrimRight(m.Value.AfterExtra, " \t\r\n")...)
	last := i == len(o.Members)-1
	o.Members = append(o.Members[:i], o.Members[i+1:]...)
	if !last {
		next := &o.Members[i].Name
		next.BeforeExtra = glue(comments, next.BeforeExtra)
		return
	}
	if i > 0 && m.Value.AfterExtra == nil { // it has no comma, nor has the one before it now
		before := &o.Members[i-1].Value
		comments = append(bytes.Clone(before.AfterExtra), comments...)
		before.AfterExtra = nil
	} else if i > 0 && o.Members[i-1].Value.AfterExtra == nil {
		o.Members[i-1].Value.AfterExtra = hujson.Extra{}
	}
	if o.AfterExtra = glue(comments, o.AfterExtra); i == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		o.AfterExtra = nil
	}
}

// glue puts blanks behind comments, of which the last may be of a line of its own.
func glue(comments, blanks []byte) hujson.Extra {
	line := comments[bytes.LastIndexByte(comments, '\n')+1:]
	if bytes.Contains(line, []byte("//")) && !bytes.HasPrefix(bytes.TrimLeft(blanks, " \t\r"), []byte("\n")) {
		blanks = append([]byte("\n"), blanks...)
	}
	return append(bytes.Clone(comments), blanks...)
}

// jsonText returns an entry as JSON: a line for each field if gap has a newline.
func jsonText(entry []field, gap, unit string) []byte {
	var b bytes.Buffer
	between, end := gap+unit, gap
	if !strings.Contains(gap, "\n") {
		between, end = "", ""
	}
	b.WriteString("{")
	for i, f := range entry {
		if i > 0 && between == "" {
			b.WriteString(", ")
		} else if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(between + jsonValue(f.key) + ": " + jsonValue(f.value))
	}
	b.WriteString(end + "}")
	return b.Bytes()
}

// jsonValue returns the value of a field as JSON, on one line. It is right in
// TOML and YAML, too.
func jsonValue(v any) string {
	if list, ok := v.([]string); ok {
		words := make([]string, len(list))
		for i, s := range list {
			words[i] = jsonValue(s)
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v) // what we make is text, numbers and truth values
	return strings.TrimSuffix(b.String(), "\n")
}
