package composite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// A phrase is a text of a definition that may be a template. Templates are those
// of text/template, which has no bounds of its own and cannot be interrupted. A
// phrase has them by what is checked, and changed, in its tree when it is parsed:
//   - no template calls another, so that none calls itself;
//   - only the functions of the table can be called, which count what they read and
//     make before they do;
//   - a range pays for all its rounds before the first;
//   - what is written goes through a function, too, and into a room that ends.
//
// What is left takes time in proportion to the length of the template.
type phrase struct {
	text  string             // where there is no template
	tree  *template.Template // nil: none
	reads []read             // what it reads of other steps
}

// parsePhrase parses text, which may read the given members of the root.
func parsePhrase(text string, roots []string) (*phrase, error) {
	if len(text) > MaxTemplate {
		return nil, fmt.Errorf("the template has %d bytes, at most %d", len(text), MaxTemplate)
	}
	if !strings.Contains(text, "{{") {
		return &phrase{text: text}, nil
	}
	t, err := template.New("line").Funcs(unbound).Parse(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	c := checker{tree: t.Tree, roots: roots}
	if len(t.Templates()) > 1 {
		return nil, errors.New("a template cannot define others")
	}
	if _, err := c.node(t.Root, true, 0); err != nil {
		return nil, err
	}
	return &phrase{tree: t, reads: c.reads}, nil
}

// fill returns the text that the phrase makes of root, at most max bytes.
func (p *phrase) fill(root map[string]any, m *meter, max int) (string, error) {
	if p.tree == nil {
		return p.text, nil
	}
	t, err := p.tree.Clone()
	if err != nil {
		return "", err
	}
	room := &room{left: max, max: max}
	if err := t.Funcs(m.bind()).Execute(room, root); err != nil {
		return "", plainly(err)
	}
	return room.String(), nil
}

// plainly returns what a template stopped for in our own words, where it has some.
func plainly(err error) error {
	var own *stop
	if errors.As(err, &own) {
		return own
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.New(strings.TrimPrefix(err.Error(), "template: "))
}

// A stop is the reason of ours why a template does not go on.
type stop struct {
	text string
	none bool // it writes what has no value
}

func (s *stop) Error() string { return s.text }

func stopped(format string, args ...any) error { return &stop{text: fmt.Sprintf(format, args...)} }

// isNone says whether a template ended since it writes what has no value.
func isNone(err error) bool {
	var own *stop
	return errors.As(err, &own) && own.none
}

// A room takes what a template writes, until it is full.
type room struct {
	strings.Builder
	left, max int
}

func (r *room) Write(p []byte) (int, error) {
	if len(p) > r.left {
		return 0, stopped("the template makes more than %d bytes", r.max)
	}
	r.left -= len(p)
	return r.Builder.Write(p)
}

// call returns the command that calls a function with constants, and with what
// comes down the pipe.
func call(name string, constants ...parse.Node) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Args: append([]parse.Node{parse.NewIdentifier(name)}, constants...)}
}
