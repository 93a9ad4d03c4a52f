package composite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// A read is what a template reads of a step.
type read struct {
	step  string
	field string // of its output; "": not known
}

// A checker checks the tree of a template and makes it count its work.
type checker struct {
	tree  *parse.Tree
	roots []string
	reads []read
}

// node checks n and what is below it, and returns how many units of work it is to
// evaluate once, the rounds of ranges apart. root says that the dot is the root.
func (c *checker) node(n parse.Node, root bool, depth int) (cost int, err error) {
	if depth > MaxDepth {
		return 0, c.wrong(n, "it nests more than %d deep", MaxDepth)
	}
	all := func(nodes ...parse.Node) (int, error) {
		sum := 1
		for _, n := range nodes {
			cost, err := c.node(n, root, depth+1)
			if err != nil {
				return 0, err
			}
			sum += cost
		}
		return sum, nil
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return 0, nil
		}
		return all(n.Nodes...)
	case *parse.TextNode:
		return 1 + len(n.Text)/perUnit, nil
	case *parse.StringNode:
		return 1 + len(n.Text)/perUnit, nil
	case *parse.ActionNode:
		cost, err = all(n.Pipe)
		if len(n.Pipe.Decl) == 0 {
			source := n.Pipe.String()
			n.Pipe.Cmds = append(n.Pipe.Cmds, call(showName, &parse.StringNode{NodeType: parse.NodeString, Quoted: strconv.Quote(source), Text: source}))
		}
		return cost, err
	case *parse.IfNode:
		return all(n.Pipe, n.List, n.ElseList)
	case *parse.WithNode:
		return c.branch(&n.BranchNode, root, depth)
	case *parse.RangeNode:
		cost, err = c.branch(&n.BranchNode, root, depth)
		n.Pipe.Cmds = append(n.Pipe.Cmds, call(rangeName, &parse.NumberNode{NodeType: parse.NodeNumber, IsInt: true, Int64: int64(cost), Text: strconv.Itoa(cost)}))
		return cost, err
	case *parse.PipeNode:
		sum := 1
		for _, cmd := range n.Cmds {
			cost, err := c.node(cmd, root, depth+1)
			if err != nil {
				return 0, err
			}
			sum += cost
		}
		return sum, nil
	case *parse.CommandNode:
		c.index(n, root)
		return all(n.Args...)
	case *parse.ChainNode:
		cost, err = all(n.Node)
		return cost + width(n.Field), err
	case *parse.FieldNode:
		if root {
			err = c.path(n, n.Ident)
		}
		return width(n.Ident), err
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			err = c.path(n, n.Ident[1:])
		}
		return width(n.Ident), err
	case *parse.IdentifierNode:
		if !isFunction(n.Ident) {
			err = c.wrong(n, "there is no function %s", n.Ident)
		}
		return 1, err
	case *parse.TemplateNode:
		return 0, c.wrong(n, "a template cannot call another")
	case *parse.DotNode, *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.BreakNode, *parse.ContinueNode:
		return 1, nil
	}
	return 0, c.wrong(n, "what this means is not known")
}

// branch checks a node that sets the dot for its list.
func (c *checker) branch(n *parse.BranchNode, root bool, depth int) (int, error) {
	sum := 1
	for _, part := range []struct {
		node parse.Node
		root bool
	}{{n.Pipe, root}, {n.List, false}, {n.ElseList, root}} {
		cost, err := c.node(part.node, part.root, depth+1)
		if err != nil {
			return 0, err
		}
		sum += cost
	}
	return sum, nil
}

// width returns the work of following names.
func width(names []string) int {
	sum := 1
	for _, name := range names {
		sum += 1 + len(name)/perUnit
	}
	return sum
}

// path checks names that are followed from the root.
func (c *checker) path(n parse.Node, names []string) error {
	if !slices.Contains(c.roots, names[0]) {
		return c.wrong(n, "there is no .%s here: there are .%s", names[0], strings.Join(c.roots, " ."))
	}
	if names[0] != "steps" || len(names) == 1 {
		return nil
	}
	r := read{step: names[1]}
	if len(names) > 3 && names[2] == "output" {
		r.field = names[3]
	}
	c.reads = append(c.reads, r)
	return nil
}

// index notes a step whose ID is no name, and that is read by index .steps "ID".
func (c *checker) index(n *parse.CommandNode, root bool) {
	if len(n.Args) < 3 {
		return
	}
	function, ok := n.Args[0].(*parse.IdentifierNode)
	id, isText := n.Args[2].(*parse.StringNode)
	if !ok || function.Ident != "index" || !isText {
		return
	}
	switch of := n.Args[1].String(); {
	case of == ".steps" && root, of == "$.steps":
		c.reads = append(c.reads, read{step: id.Text})
	}
}

func (c *checker) wrong(n parse.Node, format string, args ...any) error {
	where, _ := c.tree.ErrorContext(n)
	return fmt.Errorf("%s: "+format, append([]any{where}, args...)...)
}
