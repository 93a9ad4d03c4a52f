package vmcp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hutch/fs"
)

// Bounds of a configuration.
const (
	MaxText    = 1 << 20 // bytes
	maxNodes   = 200_000 // values, those that aliases stand for counted each time
	maxDepth   = 100     // of values in each other
	maxEntries = 1000    // of one list or table
	maxKeys    = 5000    // of a table of which nothing is known: the library compares each with each
	maxWords   = 10_000  // of a filter
	maxFaults  = 20      // that are told at once
	maxLong    = 16 << 10
)

// Parse reads a configuration. The error has a line for each thing that is wrong, with
// its line in the text and its key. An empty text is a configuration that says nothing.
func Parse(text []byte) (*Config, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: the configuration has %d bytes, at most %d", fs.ErrInvalid, len(text), MaxText)
	}
	c := &Config{root: new(yaml.Node)}
	err := decode(text, c.root, false)
	if kind := c.resource(); kind != "" {
		err = fmt.Errorf("line %d: a config is no resource of Kubernetes, as this %.64q is: take what a VirtualMCPServer has under spec.config; the spec of a VirtualMCPCompositeToolDefinition is an entry of compositeTools", c.line("kind"), kind)
	}
	if err == nil {
		err = measure(c.root)
	}
	if err == nil {
		err = decode(text, c, true)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrInvalid, plainly(err))
	}
	if f := c.withDefaults().check(); f.list != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrInvalid, f.err())
	}
	return c, nil
}

// decode reads the only document of text.
func decode(text []byte, to any, known bool) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(known)
	if err := d.Decode(to); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is a second document: want one")
	}
	return nil
}

// resource returns the kind of the resource of Kubernetes that stands in the place of the
// configuration, or first among others; "": that is none.
func (c *Config) resource() string {
	if len(c.root.Content) == 0 {
		return ""
	}
	_, version := child(c.root.Content[0], "apiVersion")
	_, kind := child(c.root.Content[0], "kind")
	if version == nil || kind == nil {
		return ""
	}
	return kind.Value
}

// unknownField is how the library tells of a key that a type does not have.
var unknownField = regexp.MustCompile(`field (.*) not found in type \S+`)

// outdated are keys of guides that the format does not have any more, and what to say.
var outdated = map[string]string{
	"maxRetries":  ": it is retryCount",
	"failureMode": ": onError of each step says what comes of its failure",
}

// plainly returns the library's error in words of the configuration.
func plainly(err error) error {
	list := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	if all := (*yaml.TypeError)(nil); errors.As(err, &all) {
		list = all.Errors
	}
	for i, text := range list {
		if m := unknownField.FindStringSubmatch(text); m != nil {
			list[i] = strings.Replace(text, m[0], "nobody knows the key "+m[1]+outdated[m[1]], 1)
		}
	}
	return errors.New(strings.Join(some(list), "\n"))
}

// some returns a list, cut where it is long.
func some(list []string) []string {
	if more := len(list) - maxFaults; more > 0 {
		return append(list[:maxFaults:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return list
}

// measure refuses a document that is too deep, has too large a table, or is too large
// where what aliases stand for is counted as often as it is meant.
func measure(root *yaml.Node) error {
	sizes := make(map[*yaml.Node]int)
	var size func(n *yaml.Node, depth int) (int, error)
	size = func(n *yaml.Node, depth int) (int, error) {
		if depth > maxDepth {
			return 0, fmt.Errorf("line %d: values are more than %d deep in each other", n.Line, maxDepth)
		}
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if known, ok := sizes[n]; ok {
			return known, nil
		}
		if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys {
			return 0, fmt.Errorf("line %d: a table has %d keys, at most %d", n.Line, len(n.Content)/2, maxKeys)
		}
		sum := 1
		for _, part := range n.Content {
			m, err := size(part, depth+1)
			if err != nil {
				return 0, err
			}
			if sum += m; sum > maxNodes {
				return 0, fmt.Errorf("line %d: the aliases stand for more than %d values", n.Line, maxNodes)
			}
		}
		sizes[n] = sum
		return sum, nil
	}
	_, err := size(root, 0)
	return err
}

// line returns the line of the key or the entry at a path of keys and indexes, or of
// the last part of the path that is there; 0: of no text.
func (c *Config) line(path ...string) (line int) {
	if c.root == nil || len(c.root.Content) == 0 {
		return 0
	}
	n := c.root.Content[0]
	line = n.Line
	for _, key := range path {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		at, next := child(n, key)
		if next == nil {
			break
		}
		n, line = next, at.Line
	}
	return line
}

// child returns what stands at a key or an index, and what says where that is.
func child(n *yaml.Node, key string) (at, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// faults are what is wrong with a configuration, or what there is to say of it.
type faults struct {
	c    *Config
	list []fault
}

type fault struct {
	line int
	text string
}

// add notes a fault of what stands at a path.
func (f *faults) add(path []string, format string, args ...any) {
	text := fs.QuoteLine(strings.Join(path, ".")) + ": " + fmt.Sprintf(format, args...)
	line := f.c.line(path...)
	if line > 0 {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	f.list = append(f.list, fault{line, text})
}

// texts returns them in the order of the text.
func (f *faults) texts() (list []string) {
	slices.SortFunc(f.list, func(a, b fault) int { return cmp.Or(a.line-b.line, strings.Compare(a.text, b.text)) })
	for _, one := range f.list {
		list = append(list, one.text)
	}
	return some(list)
}

func (f *faults) err() error { return errors.New(strings.Join(f.texts(), "\n")) }

// at returns the path to what is below another.
func at(path []string, keys ...string) []string { return append(slices.Clip(path), keys...) }
