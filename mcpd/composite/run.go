package composite

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hutch/mcpd/policy"
)

// A Caller is who runs a composite tool. Its functions are called side by side, and
// return soon when their context ends.
type Caller struct {
	// Call calls a tool by the name that a step has for it, with an object as its
	// arguments, and returns the result of MCP's tools/call, be it an error or not.
	// It is not to lead to another composite tool, which may lead back here.
	Call func(ctx context.Context, tool string, arguments json.RawMessage) (result json.RawMessage, err error)
	// Ask asks the person in front of the client and returns the result of MCP's
	// elicitation/create: the action "accept", "decline" or "cancel", and with the
	// first of these the content. Nil: there is nobody to ask.
	Ask func(ctx context.Context, message string, schema json.RawMessage) (action string, content json.RawMessage, err error)
	// Schema returns the input schema of a tool, nil if it is not known: templates
	// make texts, which become the numbers, truth values, lists and objects that it
	// wants. Nil: no schema is known.
	Schema func(tool string) json.RawMessage
}

// errTimedOut ends a run that takes too long.
var errTimedOut = errors.New("it takes too long")

// A run is one run of a tool.
type run struct {
	tool   *Tool
	caller Caller
	began  time.Time
	id     string
	params map[string]any
	done   map[string]chan struct{} // a step's is closed when it need not be waited for
	steps  chan struct{}            // has a place for each step under way
	calls  chan struct{}            // and for each call

	templates sync.Mutex // one template is filled at a time; guards what follows
	work      int        // units that they have left

	mu       sync.Mutex // guards what follows
	outcomes map[string]outcome
	held     int  // bytes of results
	skipping bool // the steps that have not begun
}

// Run runs the tool with arguments, an object or nil, and returns a result of MCP's
// tools/call: what went wrong in a step, or took too long, is one with isError. When
// ctx ends, Run returns why. What it has begun has ended when it returns.
func (t *Tool) Run(ctx context.Context, arguments json.RawMessage, caller Caller) (json.RawMessage, error) {
	params, err := t.params(arguments)
	if err != nil {
		return failure(fmt.Errorf("arguments: %w", err))
	}
	r := &run{
		tool: t, caller: caller, began: time.Now(), id: rand.Text(), params: params, work: MaxWork,
		done:  make(map[string]chan struct{}, len(t.steps)),
		steps: make(chan struct{}, MaxAtOnce), calls: make(chan struct{}, MaxParallel),
		outcomes: make(map[string]outcome, len(t.steps)),
	}
	for _, s := range t.steps {
		r.done[s.id] = make(chan struct{})
	}
	limited, cancel := context.WithTimeoutCause(ctx, t.timeout, errTimedOut)
	defer cancel()
	var result json.RawMessage
	if err = r.all(limited); err == nil {
		result, err = r.result(limited)
	}
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		err = fmt.Errorf("%w: %v are over", errTimedOut, t.timeout)
	}
	return failure(fmt.Errorf("composite tool %q: %w", t.name, err))
}

// params returns the arguments of a run, with the defaults of those that are missing.
func (t *Tool) params(text json.RawMessage) (map[string]any, error) {
	if len(text) > MaxArguments {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), MaxArguments)
	}
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	if err := policy.Fits(t.parameters, text); err != nil {
		return nil, err
	}
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	given, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("want an object")
	}
	params := maps.Clone(t.defaults)
	maps.Copy(params, given)
	return params, nil
}

// all does all steps, each as soon as those that it waits for are done. The first
// that fails ends the others.
func (r *run) all(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range r.tool.steps {
		g.Go(func() error {
			for _, id := range s.after {
				select {
				case <-r.done[id]:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if err := take(ctx, r.steps); err != nil {
				return err
			}
			o := r.step(ctx, s)
			<-r.steps
			if o.err != nil && !s.goOn || ctx.Err() != nil {
				return fmt.Errorf("step %q: %w", s.id, orCause(ctx, o.err))
			}
			r.keep(s, o)
			close(r.done[s.id])
			return nil
		})
	}
	return g.Wait()
}

// orCause returns err, or why ctx ended where there is none.
func orCause(ctx context.Context, err error) error {
	if err == nil {
		return context.Cause(ctx)
	}
	return err
}

// take takes one of the places, when there is one and ctx has not ended.
func take(ctx context.Context, places chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// step does one step, if it is not to be skipped.
func (r *run) step(ctx context.Context, s *step) outcome {
	r.mu.Lock()
	skip := r.skipping
	r.mu.Unlock()
	if !skip && s.when != nil {
		yes, err := r.when(ctx, s)
		if err != nil {
			return failedBy(fmt.Errorf("condition: %w", err))
		}
		skip = !yes
	}
	if skip {
		return outcome{status: skipped, output: orNone(s.defaults)}
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimedOut)
	defer cancel()
	o := s.run(limited, r, s)
	if o.err != nil && limited.Err() != nil && ctx.Err() == nil {
		o.err = fmt.Errorf("%w: %v are over", errTimedOut, s.timeout)
	}
	return o
}

// when says whether the condition of a step holds.
func (r *run) when(ctx context.Context, s *step) (bool, error) {
	text, err := r.fill(ctx, s.when, r.root(s), MaxMade)
	if err != nil {
		return false, err
	}
	v, err := typed(text, "boolean")
	if err != nil {
		return false, fmt.Errorf("%.64q is neither true nor false", text)
	}
	return v.(bool), nil
}

// fill fills a phrase, within what this run has left for its templates.
func (r *run) fill(ctx context.Context, p *phrase, root map[string]any, most int) (string, error) {
	if p.tree == nil {
		return p.fill(nil, nil, most)
	}
	r.templates.Lock()
	defer r.templates.Unlock()
	m := meter{ctx: ctx, left: min(r.work, MaxTemplateWork)}
	had := m.left
	text, err := p.fill(root, &m, most)
	r.work -= had - m.left
	return text, err
}
