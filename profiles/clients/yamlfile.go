package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML returns the table that a file is, nil if it is empty.
func readYAML(text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(&more); err == nil {
		return nil, errors.New("several documents")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("no table")
	}
	return root, nil
}

func decodeYAML(text []byte) (map[string]any, error) {
	root, err := readYAML(text)
	doc := map[string]any{}
	if err != nil || root == nil {
		return doc, err
	}
	if err := boundYAML(new(count), root, 0); err != nil {
		return doc, err
	}
	return doc, root.Decode(&doc)
}

// boundYAML refuses what is too deep or has too many values. Reading that much
// was cheap: what is dear is to make tables of it.
func boundYAML(n *count, node *yaml.Node, depth int) error {
	if node.Kind == yaml.MappingNode && len(node.Content) > 2*maxKeys {
		return errMany
	}
	if err := n.add(1, depth); err != nil {
		return err
	}
	for _, in := range node.Content {
		if err := boundYAML(n, in, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// insertYAML adds a server at the start of the others, where no value of
// several lines is to be found the end of.
func insertYAML(c *Client, text []byte, name string, entry []field) ([]byte, error) {
	root, err := readYAML(text)
	if err != nil {
		return nil, err
	}
	if root != nil && root.Style&yaml.FlowStyle != 0 {
		return nil, errForm
	}
	newline := newlineOf(text)
	key, value := yamlValue(root, c.key)
	indent := 0
	if root != nil && len(root.Content) > 0 {
		indent = root.Content[0].Column - 1
	}
	switch {
	case key == nil:
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = slices.Concat(text, []byte(newline))
		}
		block := c.yamlText(name, entry, indent+2, newline)
		return slices.Concat(text, []byte(strings.Repeat(" ", indent)+c.key+":"+newline+block)), nil
	case value.Kind == yaml.ScalarNode || len(value.Content) == 0: // null, {} or []
		is, err := setYAML(text, key, "")
		if err != nil {
			return nil, err
		}
		return insertLines(is, key.Line, c.yamlText(name, entry, indent+2, newline), newline), nil
	case value.Style&yaml.FlowStyle != 0:
		at := offset(text, value.Line, value.Column)
		if at < 0 || text[at] != '{' && text[at] != '[' {
			return nil, errForm
		}
		return slices.Concat(text[:at+1], []byte(c.inlineYAML(name, entry)+", "), text[at+1:]), nil
	case value.Content[0].Line == key.Line:
		return nil, errForm
	}
	return insertLines(text, key.Line, c.yamlText(name, entry, value.Column-1, newline), newline), nil
}

// yamlValue returns the key of a table, and its value; nil if there is none.
func yamlValue(table *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; table != nil && i+1 < len(table.Content); i += 2 {
		if table.Content[i].Value == name {
			return table.Content[i], table.Content[i+1]
		}
	}
	return nil, nil
}

// setYAML has an empty value behind a key, "" for a null or another, be said
// by text.
func setYAML(text []byte, key *yaml.Node, value string) ([]byte, error) {
	at := offset(text, key.Line, key.Column) + len(key.Value)
	if key.Style != 0 || at >= len(text) || text[at] != ':' {
		return nil, errForm
	}
	at++
	end := at
	for _, empty := range []string{"{}", "[]", "null", "~"} {
		if rest := bytes.TrimLeft(text[at:], " "); bytes.HasPrefix(rest, []byte(empty)) {
			end = len(text) - len(rest) + len(empty)
		}
	}
	if value != "" {
		value = " " + value
	}
	return slices.Concat(text[:at], []byte(value), text[end:]), nil
}

// offset returns where a line and column, both from 1, stand in a text: -1 if
// they do not.
func offset(text []byte, line, column int) int {
	at := lineStart(text, line)
	for rest := column - 1; rest > 0 && at < len(text); rest-- { // columns are of characters
		at++
		for at < len(text) && text[at]&0xc0 == 0x80 {
			at++
		}
	}
	if at >= len(text) {
		return -1
	}
	return at
}

// lineStart returns where a line begins, from 1; the end of the text if there
// are not so many.
func lineStart(text []byte, line int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n + 1
	}
	return at
}

// insertLines adds lines behind one.
func insertLines(text []byte, behind int, lines, newline string) []byte {
	at := lineStart(text, behind+1)
	if at == len(text) && !bytes.HasSuffix(text, []byte("\n")) {
		lines = newline + strings.TrimSuffix(lines, newline)
	}
	return slices.Concat(text[:at], []byte(lines), text[at:])
}

// yamlText returns an entry as lines.
func (c *Client) yamlText(name string, entry []field, indent int, newline string) string {
	var b strings.Builder
	blanks := strings.Repeat(" ", indent)
	lead := blanks + "- "
	if !c.list {
		fmt.Fprintf(&b, "%s%s:%s", blanks, yamlKey(name), newline)
		lead = blanks + "  "
	}
	for _, f := range entry {
		fmt.Fprintf(&b, "%s%s: %s%s", lead, f.key, jsonValue(f.value), newline)
		lead = blanks + "  "
	}
	return b.String()
}

// yamlKey returns a name as YAML has it, quoted if it could be taken for a
// number or a truth value.
func yamlKey(name string) string {
	var v any
	if yaml.Unmarshal([]byte(name), &v) == nil && v == any(name) {
		return name
	}
	return jsonValue(name)
}

// inlineYAML returns an entry on one line.
func (c *Client) inlineYAML(name string, entry []field) string {
	text := string(jsonText(entry, "", ""))
	if c.list {
		return text
	}
	return jsonValue(name) + ": " + text
}

// removeYAML takes out the lines of a server, or what is in braces if it stands
// there as hutch writes it.
func removeYAML(c *Client, text []byte, name string, entry []field) ([]byte, error) {
	root, err := readYAML(text)
	if err != nil {
		return nil, err
	}
	key, value := yamlValue(root, c.key)
	if key == nil || value.Kind == yaml.AliasNode {
		return nil, errForm
	}
	if value.Style&yaml.FlowStyle != 0 || root.Style&yaml.FlowStyle != 0 {
		return cutOnce(text, c.inlineYAML(name, entry))
	}
	from, column := c.yamlPlace(value, name)
	if from == 0 || from == key.Line {
		return nil, errForm
	}
	start, end := lineStart(text, from), blockEnd(text, from, column)
	is := slices.Concat(text[:start], text[end:])
	if len(value.Content) > 1 && (c.list || len(value.Content) > 2) {
		return is, nil
	}
	if c.list {
		return setYAML(is, key, "[]")
	}
	return setYAML(is, key, "{}")
}

// yamlPlace returns the line and the column of a server among others; line 0
// if it is not there.
func (c *Client) yamlPlace(servers *yaml.Node, name string) (line, column int) {
	if !c.list {
		if key, _ := yamlValue(servers, name); key != nil {
			return key.Line, key.Column
		}
		return 0, 0
	}
	for _, entry := range servers.Content {
		if _, v := yamlValue(entry, "name"); v != nil && v.Value == name {
			return entry.Line, servers.Column // of the dash
		}
	}
	return 0, 0
}

// blockEnd returns where the block ends that begins in a line and column: what
// is deeper belongs to it, blank lines within, too.
func blockEnd(text []byte, line, column int) int {
	at := lineStart(text, line+1)
	end := at
	for at < len(text) {
		next := lineStart(text[at:], 2) + at
		now := text[at:next]
		blank := len(bytes.TrimSpace(now)) == 0
		if !blank && len(now)-len(bytes.TrimLeft(now, " ")) < column {
			break
		}
		if at = next; !blank {
			end = at
		}
	}
	return end
}
