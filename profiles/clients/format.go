package clients

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"hutch/fs"
)

// A format is how a file is written, and how that is changed: textually, by
// what a parser says of where things stand. An edit that hits more than it was
// to, of a file that nobody foresaw, is found by reading what came of it.
type format struct {
	name   string
	max    int // size of the largest file, in bytes
	decode func(text []byte) (map[string]any, error)
	// insert adds an entry that is not there.
	insert func(c *Client, text []byte, name string, entry []field) ([]byte, error)
	// remove takes out one that is there.
	remove func(c *Client, text []byte, name string, entry []field) ([]byte, error)
}

var (
	jsonForm = format{"json", 16 << 20, decodeJSON, insertJSON, removeJSON}
	tomlForm = format{"toml", 1 << 20, decodeTOML, insertTOML, removeTOML}
	yamlForm = format{"yaml", 1 << 20, decodeYAML, insertYAML, removeYAML}
)

// What may be in a file. Parsers call themselves for each level, and stacks end;
// they need more for many values than for long ones; and those of YAML and TOML
// compare each key of a table with each.
const (
	maxDepth  = 1000   // of lists and tables in each other
	maxValues = 200000 // also those in lists
	maxKeys   = 2000   // of a table of YAML
	maxParts  = 10000  // of all keys of TOML, where dots are between them
)

var (
	errDeep = fmt.Errorf("deeper than %d", maxDepth)
	errMany = fmt.Errorf("has more than %d values, %d keys of TOML, or %d in a table of YAML", maxValues, maxParts, maxKeys)
)

// A count is of the values that were found in a file.
type count int

// add counts values that are so deep.
func (n *count) add(values, depth int) error {
	*n += count(values)
	switch {
	case depth > maxDepth:
		return errDeep
	case *n > maxValues:
		return errMany
	}
	return nil
}

// newlineOf returns what ends the lines of a text.
func newlineOf(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// errForm is returned for what is right, but not written so that it can be
// edited without touching more.
var errForm = errors.New("is written in a way that hutch cannot edit without changing more: do it by hand")

// decode returns what a client's file says, nothing if it is empty.
func (c *Client) decode(text []byte) (map[string]any, error) {
	if len(text) > c.form.max {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", fs.ErrTooLarge, c.shown(), c.form.max)
	}
	doc, err := c.form.decode(text)
	if errors.Is(err, errMany) {
		return nil, fmt.Errorf("%w: %s %w", fs.ErrTooLarge, c.shown(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not %s: %w", fs.ErrInvalid, c.shown(), c.form.name, err)
	}
	return doc, nil
}

// programs returns the programs that a file starts as servers, by their names. Servers
// without one are there, too.
func (c *Client) programs(doc map[string]any) (map[string]program, error) {
	found := make(map[string]program)
	switch servers := doc[c.key].(type) {
	case nil:
	case map[string]any:
		if c.list {
			return nil, c.wrong("no list")
		}
		for name, entry := range servers {
			found[name] = programOf(entry)
		}
	case []any:
		if !c.list {
			return nil, c.wrong("no table")
		}
		for _, entry := range servers {
			name := nameOf(entry)
			if _, twice := found[name]; twice && name != "" {
				return nil, fmt.Errorf("%w: %s has two servers %s", fs.ErrInvalid, c.shown(), fs.QuoteLine(fs.Shorten(name)))
			}
			found[name] = programOf(entry)
		}
		delete(found, "") // which is another's to mend
	default:
		return nil, c.wrong("neither list nor table")
	}
	return found, nil
}

func (c *Client) wrong(what string) error {
	return fmt.Errorf("%w: %s of %s is %s", fs.ErrInvalid, c.key, c.shown(), what)
}

// nameOf returns the name of an entry of a list, "" if it has none.
func nameOf(entry any) string {
	table, _ := entry.(map[string]any)
	name, _ := table["name"].(string)
	return name
}

// put returns the text of a file with a server in it that starts p, instead of
// the one of that name if there is one.
func (c *Client) put(text []byte, name string, p program) ([]byte, error) {
	text, err := c.begun(text)
	if err != nil {
		return nil, err
	}
	_, there, err := c.find(text, name)
	if err != nil {
		return nil, err
	}
	was := text
	if there {
		if text, err = c.drop(text, name); err != nil {
			return nil, err
		}
	}
	text, err = c.form.insert(c, text, name, c.entry(name, p))
	if err != nil {
		return nil, c.unedited(err)
	}
	return text, c.check(was, text, name, &p)
}

// begun returns the text of a file with what the client wants it to say at the
// least, if it says nothing.
func (c *Client) begun(text []byte) ([]byte, error) {
	if c.head == "" {
		return text, nil
	}
	doc, err := c.decode(text)
	if err != nil || len(doc) > 0 {
		return text, err
	}
	newline := newlineOf(text)
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = slices.Concat(text, []byte(newline))
	}
	return slices.Concat(text, []byte(strings.ReplaceAll(c.head, "\n", newline))), nil
}

// drop returns the text of a file without a server that is in it.
func (c *Client) drop(text []byte, name string) ([]byte, error) {
	p, _, err := c.find(text, name)
	if err != nil {
		return nil, err
	}
	is, err := c.form.remove(c, text, name, c.entry(name, p))
	if err != nil {
		return nil, c.unedited(err)
	}
	return is, c.check(text, is, name, nil)
}

// find returns the program of a server of a file, and whether there is one.
func (c *Client) find(text []byte, name string) (program, bool, error) {
	doc, err := c.decode(text)
	if err != nil {
		return program{}, false, err
	}
	all, err := c.programs(doc)
	p, there := all[name]
	return p, there, err
}

func (c *Client) unedited(err error) error {
	return fmt.Errorf("%w: %s %w", fs.ErrUnsupported, c.shown(), err)
}

// check says whether an edit did what it was to, and nothing else: p is what
// the server starts, nil if it is to be gone.
func (c *Client) check(was, is []byte, name string, p *program) error {
	before, err := c.decode(was)
	if err != nil {
		return err
	}
	after, err := c.decode(is)
	if errors.Is(err, fs.ErrTooLarge) {
		return err
	}
	if err != nil {
		return c.unedited(errForm)
	}
	all, err := c.programs(after)
	got, there := all[name]
	if err != nil || there != (p != nil) || there && (got.command != p.command || !slices.Equal(got.args, p.args)) {
		return c.unedited(errForm)
	}
	c.without(before, name)
	c.without(after, name)
	if !reflect.DeepEqual(before, after) {
		return c.unedited(errForm)
	}
	return nil
}

// without takes a server out of what a file says. No servers are the same as
// an empty list of them.
func (c *Client) without(doc map[string]any, name string) {
	switch servers := doc[c.key].(type) {
	case nil:
		delete(doc, c.key)
	case map[string]any:
		maps.DeleteFunc(servers, func(n string, _ any) bool { return n == name })
		if len(servers) == 0 {
			delete(doc, c.key)
		}
	case []any:
		servers = slices.DeleteFunc(servers, func(entry any) bool { return nameOf(entry) == name })
		if doc[c.key] = servers; len(servers) == 0 {
			delete(doc, c.key)
		}
	}
}
