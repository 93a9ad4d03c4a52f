package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The limits of a condition. A cost is in the units of CEL: about as many as
// steps of the evaluation, and bytes that it goes through.
const (
	maxText  = 16 << 10 // characters of it
	maxNodes = 2000     // of it as a tree, macros expanded
	maxNest  = 64       // of parentheses and operators
	maxRegex = 2000     // instructions of a regular expression
	maxLeast = 10_000   // cost of an evaluation at the least
	maxCost  = 100_000  // cost of one evaluation
	small    = 4 << 10  // bytes of an event, for which many a condition cannot cost too much
)

// A condition is what a rule's text is compiled to. Counting what it costs
// takes longer than the condition itself, and is left out where it cannot
// come to too much.
type condition struct {
	counted cel.Program
	free    cel.Program // nothing is counted; nil: it could cost too much
	linear  bool        // free is for events of any size, not just for small ones
}

// compile compiles a condition on the family's event and tells what it looks
// at. Its error is a Fault whose Of is empty.
func (f *family) compile(text string) (c *condition, looks looking, err error) {
	env, err := f.env()
	if err != nil {
		return nil, looks, err
	}
	if len(text) > maxText {
		return nil, looks, &Fault{Key: "if", Text: fmt.Sprintf("has %d bytes, at most %d: make several rules of it", len(text), maxText)}
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, looks, f.fault(text, issues.Errors())
	}
	if t := tree.OutputType(); t != cel.BoolType && t != cel.DynType {
		return nil, looks, &Fault{Key: "if", Text: fmt.Sprintf("is of type %s: write a condition that is true or false", t)}
	}
	if _, written := patterns(tree); !written {
		return nil, looks, &Fault{Key: "if", Text: "a regular expression has to be written in the condition: who asks could send one that takes long"}
	}
	if says := never(tree); says != "" {
		return nil, looks, &Fault{Key: "if", Text: says}
	}
	if cost, err := env.EstimateCost(tree, sizes{}); err != nil || cost.Min > maxLeast {
		return nil, looks, &Fault{Key: "if", Text: "costs too much whatever is asked: make it simpler"}
	}
	if c, err = newCondition(env, tree); err != nil {
		return nil, looks, &Fault{Key: "if", Text: err.Error()}
	}
	for _, name := range tree.NativeRep().ReferenceMap() {
		looks.atCalls = looks.atCalls || values[name.Name].value != nil && !slices.Contains(ofTools, name.Name)
		looks.atJSON = looks.atJSON || slices.Contains(ofJSON, name.Name)
	}
	return c, looks, nil
}

func newCondition(env *cel.Env, tree *cel.Ast) (*condition, error) {
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.OptimizeRegex(bounded)}
	counted, err := env.Program(tree, append(options, cel.CostLimit(maxCost))...)
	if err != nil {
		return nil, err
	}
	c := &condition{counted: counted, linear: callsOnly(tree, linearCalls)}
	if c.linear || callsOnly(tree, boundedCalls) && costOfSmall(env, tree) <= maxCost {
		c.free, err = env.Program(tree, options...)
	}
	return c, err
}

// bounded refuses a match that would cost more than a condition may. CEL itself
// counts a match only after it ran, which on a long text can take half a minute.
var bounded = &interpreter.RegexOptimization{
	Function: overloads.Matches, OverloadID: overloads.MatchesString, RegexIndex: 1,
	Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, err
		}
		most := 40 * maxCost / (len(pattern) + 4) // bytes, as CEL counts: a tenth of them times a quarter of the pattern's
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
			text, ok := values[0].(types.String)
			switch {
			case !ok:
				return types.NoSuchOverloadErr()
			case len(text) > most:
				return types.WrapErr(errCost)
			}
			return types.Bool(re.MatchString(string(text)))
		}), nil
	},
}

var errCost = fmt.Errorf("it costs more than %d steps: make it simpler", maxCost)

// callsOnly reports whether a condition calls no functions but those of a list.
func callsOnly(tree *cel.Ast, list []string) bool {
	only := true
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			only = only && slices.Contains(list, e.AsCall().FunctionName())
		}
	}))
	return only
}

// linearCalls are the functions that go once through what they are given. A
// condition has maxNodes of them at most, and no loop: each of those calls
// NotStrictlyFalse or Add, too.
var linearCalls = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.In, operators.Index,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	overloads.StartsWith, overloads.EndsWith, overloads.Contains, overloads.Size,
}

// boundedCalls are the functions that make nothing longer than what they are
// given, so that the size of the event bounds the cost of each.
var boundedCalls = append([]string{overloads.Matches, operators.NotStrictlyFalse}, linearCalls...)

// costOfSmall is the most that a condition costs on a small event.
func costOfSmall(env *cel.Env, tree *cel.Ast) uint64 {
	cost, err := env.EstimateCost(tree, sizes{most: small})
	if err != nil {
		return math.MaxUint64
	}
	return cost.Max
}

// A looking tells what a condition looks at.
type looking struct {
	atCalls bool // what only a call has, and no list of tools
	atJSON  bool // what stands in arguments or results
}

// ofJSON are the roots whose values are decoded.
var ofJSON = []string{
	"mcp.request.arguments", "mcp.ask.params", "mcp.response.content", "mcp.response.structured",
	"mcp.response.is_error", "mcp.response.result_status",
}

// ofTools are the roots whose values are known of a tool that nobody calls.
var ofTools = []string{"mcp.request.method", "mcp.request.server_name", "mcp.request.tool_name", "mcp.request.name", "vm.name"}

// sizes tells CEL how long what is asked may be.
type sizes struct {
	most uint64 // 0: nobody knows
}

func (s sizes) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	if s.most == 0 {
		return nil
	}
	return &checker.SizeEstimate{Max: s.most}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// fault is the first of what is wrong with a condition. Of a name that there is
// not it tells those that there are: CEL's own words are about a part of it.
func (f *family) fault(text string, wrong []*cel.Error) *Fault {
	slices.SortStableFunc(wrong, func(a, b *cel.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	first := wrong[0]
	line, column := max(first.Location.Line(), 1), max(first.Location.Column(), 0)
	says := first.Message
	switch {
	case strings.HasPrefix(says, "undeclared reference"):
		var name string
		if name, column = nameAt(strings.Split(text, "\n")[line-1], column); !strings.HasSuffix(name, "(") {
			says = fmt.Sprintf("unknown name %.64s: known are %s", name, f.rootNames())
		}
	case strings.Contains(says, "token recognition error at: '="):
		says = "= is no operator: == compares"
	case says == "invalid matches argument":
		says = f.regexFault(text)
	case strings.HasPrefix(says, "regex program size"):
		says = "the regular expression is too large: make it simpler"
	}
	return &Fault{Key: "if", Line: line - 1, Text: fmt.Sprintf("column %d: %s", column+1, says)}
}

// regexFault says what is wrong with the first regular expression of a
// condition that is not right.
func (f *family) regexFault(text string) string {
	says := "the regular expression is wrong"
	env, err := f.env()
	if err != nil {
		return says
	}
	tree, issues := env.Parse(text)
	if issues.Err() != nil {
		return says
	}
	list, _ := patterns(tree)
	for _, pattern := range list {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Sprintf("the regular expression %.64q is wrong: %s", pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
	return says
}

// patterns returns the regular expressions of a condition, and whether all of them
// are written in it.
func patterns(tree *cel.Ast) (list []string, written bool) {
	written = true
	root := ast.NavigateAST(tree.NativeRep())
	for _, call := range ast.MatchDescendants(root, ast.FunctionMatcher(overloads.Matches)) {
		args := call.AsCall().Args()
		if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
			written = false
		} else if pattern, ok := args[len(args)-1].AsLiteral().Value().(string); ok {
			list = append(list, pattern)
		}
	}
	return list, written
}

// never says which comparison of a condition with a word cannot hold, as the root can
// only be others; "" if none is so.
func never(tree *cel.Ast) (says string) {
	names := tree.NativeRep().ReferenceMap()
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, e.AsCall().FunctionName()) {
			return
		}
		args := e.AsCall().Args()
		for i, arg := range args {
			name := names[arg.ID()]
			if name == nil || wordsOf[name.Name] == nil {
				continue
			}
			words := wordsOf[name.Name]
			for _, word := range literals(args[len(args)-1-i]) {
				if says == "" && !slices.Contains(words, word) {
					says = fmt.Sprintf("%s is never %.64q: it is one of %s", name.Name, word, strings.Join(words, ", "))
				}
			}
		}
	}))
	return says
}

// literals returns the text that an expression is, or those of a list.
func literals(e ast.Expr) (words []string) {
	switch e.Kind() {
	case ast.LiteralKind:
		if word, ok := e.AsLiteral().Value().(string); ok {
			words = []string{word}
		}
	case ast.ListKind:
		for _, part := range e.AsList().Elements() {
			words = append(words, literals(part)...)
		}
	}
	return words
}

// nameAt returns the name with dots that the character at column of a line is
// part of, with the bracket after it if it is a function's, and where it starts.
func nameAt(line string, column int) (string, int) {
	text := []rune(line)
	column = min(column, len(text))
	isPart := func(r rune) bool { return r == '.' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	start, end := column, column
	for start > 0 && isPart(text[start-1]) {
		start--
	}
	for end < len(text) && isPart(text[end]) {
		end++
	}
	if end < len(text) && text[end] == '(' {
		end++
	}
	return string(text[start:end]), start
}

// eval returns what a condition says of an event.
func (c *condition) eval(e *Event) (bool, error) {
	program := c.counted
	if c.linear || c.free != nil && e.size() <= small {
		program = c.free
	}
	v, _, err := program.Eval((*activation)(e))
	if err != nil {
		return false, advice(err)
	}
	is, ok := v.Value().(bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return is, nil
}

// advice says what to do about a condition that cannot be found out.
func advice(err error) error {
	var cancelled interpreter.EvalCancelledError
	switch says := err.Error(); {
	case errors.As(err, &cancelled):
		return errCost
	case strings.HasPrefix(says, "no such key"):
		return fmt.Errorf("%s: ask for it first, as has(mcp.request.arguments.path) does", says)
	case strings.HasPrefix(says, "no such overload"), strings.HasPrefix(says, "unsupported"):
		return fmt.Errorf("%s: a value is of another type, or a number that is too large: ask for it first, as type(mcp.request.arguments.path) == string does", says)
	}
	return err
}
