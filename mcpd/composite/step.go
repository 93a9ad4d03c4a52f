package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A step is a Step that was checked.
type step struct {
	id       string
	run      func(ctx context.Context, r *run, s *step) outcome
	when     *phrase // nil: always
	after    []string
	timeout  time.Duration
	goOn     bool // although it failed
	retries  int
	delay    time.Duration
	defaults map[string]any
	reads    []read

	tool      string
	arguments arguments

	message           *phrase
	schema            json.RawMessage
	onDecline, onStop string // actions

	list       *phrase
	item       string
	parallel   int
	iterations int
	inner      *step

	level  int             // of waiting: 0 waits for none
	before map[string]bool // the steps that it comes after, those that these come after, too
}

// calls returns the tool that the step calls, "" if none.
func (s *step) calls() string {
	if s.inner != nil {
		return s.inner.tool
	}
	return s.tool
}

// A kind is a type of steps: the fields that one has beside those of all, what may
// come of its failure, and how it is checked and run.
type kind struct {
	name    string
	fields  []string
	onError []string
	compile func(c *compiler, from *Step, to *step, roots []string) error
	run     func(ctx context.Context, r *run, s *step) outcome
}

var (
	toolKind = &kind{"tool", []string{"tool", "arguments"}, []string{"abort", "continue", "retry"}, (*compiler).calling, runTool}
	kinds    = []*kind{
		toolKind,
		{"elicitation", []string{"message", "schema", "onDecline", "onCancel"}, []string{"abort", "continue"}, (*compiler).asking, runElicitation},
		{"forEach", []string{"collection", "itemVar", "maxParallel", "maxIterations", "step"}, []string{"abort", "continue"}, (*compiler).forEach, runForEach},
	}
)

// own are the fields that not every step has, and whether one is set.
var own = []struct {
	name string
	set  func(s *Step) bool
}{
	{"tool", func(s *Step) bool { return s.Tool != "" }},
	{"arguments", func(s *Step) bool { return !s.Arguments.IsZero() }},
	{"message", func(s *Step) bool { return s.Message != "" }},
	{"schema", func(s *Step) bool { return !s.Schema.IsZero() }},
	{"onDecline", func(s *Step) bool { return s.OnDecline != nil }},
	{"onCancel", func(s *Step) bool { return s.OnCancel != nil }},
	{"collection", func(s *Step) bool { return s.Collection != "" }},
	{"itemVar", func(s *Step) bool { return s.ItemVar != "" }},
	{"maxParallel", func(s *Step) bool { return s.MaxParallel != 0 }},
	{"maxIterations", func(s *Step) bool { return s.MaxIterations != 0 }},
	{"step", func(s *Step) bool { return s.Step != nil }},
}

// roots are what the templates of all steps may read.
var roots = []string{"params", "steps", "workflow"}

func (c *compiler) step(from *Step) (*step, error) {
	if from.ID == "" || len(from.ID) > MaxName || !stepID.MatchString(from.ID) {
		return nil, fmt.Errorf("id: want at most %d of A-Z, a-z, 0-9, _ and -", MaxName)
	}
	to := &step{id: from.ID, after: from.DependsOn}
	var err error
	if to.when, err = c.phrase(from.Condition, roots, to); err != nil {
		return nil, fmt.Errorf("condition: %w", err)
	}
	if from.Condition == "" {
		to.when = nil
	}
	if to.defaults, err = c.object(from.DefaultResults); err != nil {
		return nil, fmt.Errorf("defaultResults: %w", err)
	}
	k := toolKind
	if from.Type != "" {
		i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == from.Type })
		if i < 0 {
			return nil, fmt.Errorf("type: %.40q: want tool, elicitation or forEach", from.Type)
		}
		k = kinds[i]
	}
	return to, c.ofKind(k, from, to, roots)
}

// ofKind checks what a step has by its type.
func (c *compiler) ofKind(k *kind, from *Step, to *step, roots []string) (err error) {
	for _, f := range own {
		if f.set(from) && !slices.Contains(k.fields, f.name) {
			return fmt.Errorf("%s: a step of the type %s has none", f.name, k.name)
		}
	}
	if to.timeout, err = duration(from.Timeout, DefaultStepTimeout); err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	if err := onError(from.OnError, k.onError, to); err != nil {
		return fmt.Errorf("onError: %w", err)
	}
	to.run = k.run
	return k.compile(c, from, to, roots)
}

func onError(from *OnError, may []string, to *step) (err error) {
	if from == nil {
		return nil
	}
	action := from.Action
	if action == "" {
		action = "abort"
	}
	if !slices.Contains(may, action) {
		return fmt.Errorf("action: %.40q: want %s here", action, strings.Join(may, " or "))
	}
	to.goOn = action == "continue"
	if action != "retry" {
		if from.RetryCount != 0 || from.RetryDelay != 0 {
			return errors.New(`retryCount and retryDelay want the action "retry"`)
		}
		return nil
	}
	if from.RetryCount < 1 {
		return fmt.Errorf("retryCount: %d: want 1 at least", from.RetryCount)
	}
	to.retries = min(from.RetryCount, MaxRetries)
	if to.delay, err = duration(from.RetryDelay, DefaultRetryDelay); err != nil {
		return fmt.Errorf("retryDelay: %w", err)
	}
	return nil
}

// phrase parses a template of a step, and notes what it reads of others.
func (c *compiler) phrase(text string, roots []string, to *step) (*phrase, error) {
	p, err := parsePhrase(text, roots)
	if err != nil {
		return nil, err
	}
	to.reads = append(to.reads, p.reads...)
	return p, nil
}

// calling checks a step that calls a tool.
func (c *compiler) calling(from *Step, to *step, roots []string) (err error) {
	switch {
	case from.Tool == "":
		return errors.New("tool: say which one to call")
	case len(from.Tool) > MaxReference || !reference.MatchString(from.Tool):
		return fmt.Errorf("tool: %.64q is no name of a tool", from.Tool)
	case c.known != nil && !c.known(from.Tool):
		return fmt.Errorf("tool: there is no %q", from.Tool)
	}
	to.tool = from.Tool
	to.arguments, err = c.arguments(from.Arguments, to, roots)
	return err
}

// asking checks a step that asks a person.
func (c *compiler) asking(from *Step, to *step, roots []string) (err error) {
	if from.Message == "" {
		return errors.New("message: say what the person is asked")
	}
	if to.message, err = c.phrase(from.Message, roots, to); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if to.schema, err = c.schema(from.Schema); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if to.onDecline, err = response(from.OnDecline); err != nil {
		return fmt.Errorf("onDecline: %w", err)
	}
	if to.onStop, err = response(from.OnCancel); err != nil {
		return fmt.Errorf("onCancel: %w", err)
	}
	return nil
}

func response(from *Response) (string, error) {
	if from == nil || from.Action == "" {
		return "abort", nil
	}
	if !slices.Contains([]string{"abort", "continue", "skip_remaining"}, from.Action) {
		return "", fmt.Errorf("action: %.40q: want abort, continue or skip_remaining", from.Action)
	}
	return from.Action, nil
}

func (c *compiler) forEach(from *Step, to *step, roots []string) (err error) {
	to.item, to.parallel, to.iterations = from.ItemVar, from.MaxParallel, from.MaxIterations
	if to.item == "" {
		to.item = "item"
	}
	if to.parallel == 0 {
		to.parallel = DefaultParallel
	}
	if to.iterations == 0 {
		to.iterations = DefaultIterations
	}
	switch {
	case from.Collection == "":
		return errors.New("collection: say what to go through")
	case len(to.item) > MaxName || !variable.MatchString(to.item) || to.item == "index":
		return fmt.Errorf("itemVar: %.64q: want a name of letters, digits and _ that is not index", to.item)
	case to.parallel < 1 || to.parallel > MaxParallel:
		return fmt.Errorf("maxParallel: %d: want 1 to %d", to.parallel, MaxParallel)
	case to.iterations < 1 || to.iterations > MaxIterations:
		return fmt.Errorf("maxIterations: %d: want 1 to %d", to.iterations, MaxIterations)
	case from.Step == nil:
		return errors.New("step: say what to do for each item")
	}
	if to.list, err = c.phrase(from.Collection, roots, to); err != nil {
		return fmt.Errorf("collection: %w", err)
	}
	to.inner = &step{id: to.id}
	if err := c.innerStep(from.Step, to.inner, append(slices.Clip(roots), "forEach")); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	to.reads = append(to.reads, to.inner.reads...)
	return nil
}

// innerStep checks what a forEach does for each item, which is to call a tool.
func (c *compiler) innerStep(from *Step, to *step, roots []string) error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"condition", from.Condition != ""},
		{"dependsOn", len(from.DependsOn) > 0},
		{"defaultResults", !from.DefaultResults.IsZero()},
	} {
		if f.set {
			return fmt.Errorf("%s: it belongs to the forEach", f.name)
		}
	}
	if from.Type != "" && from.Type != "tool" {
		return fmt.Errorf("type: %.40q: only a tool can be called for each item", from.Type)
	}
	if from.OnError != nil && from.OnError.Action == "continue" {
		return errors.New("onError: continue belongs to the forEach")
	}
	return c.ofKind(toolKind, from, to, roots)
}
