package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hutch/mcpd/policy"
)

// runTool does a step that calls a tool.
func runTool(ctx context.Context, r *run, s *step) outcome {
	return r.call(ctx, s, r.root(s))
}

// call calls the tool of a step with arguments that read root, again and again
// where the step is to be retried.
func (r *run) call(ctx context.Context, s *step, root map[string]any) outcome {
	if err := take(ctx, r.calls); err != nil {
		return failedBy(err)
	}
	defer func() { <-r.calls }()
	arguments, err := r.arguments(ctx, s, root)
	if err != nil {
		return failedBy(err)
	}
	delay := s.delay
	for try := 0; ; try++ {
		o := r.once(ctx, s, arguments)
		if o.err == nil || try == s.retries || ctx.Err() != nil {
			return o
		}
		pause := time.NewTimer(delay)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return failedBy(context.Cause(ctx))
		}
		delay = min(2*delay, MaxBackoff*s.delay)
	}
}

// arguments makes the arguments of a call.
func (r *run) arguments(ctx context.Context, s *step, root map[string]any) (json.RawMessage, error) {
	var schema any
	if r.caller.Schema != nil {
		if text := r.caller.Schema(s.tool); text != nil {
			json.Unmarshal(text, &schema) // of one that is no JSON nothing is known
		}
	}
	f := filling{r: r, ctx: ctx, root: root, left: MaxArguments}
	made, err := f.fill(s.arguments, "arguments", schema)
	if err != nil {
		return nil, err
	}
	text, err := marshal(made)
	if err == nil && len(text) > MaxArguments {
		err = fmt.Errorf("arguments: %d bytes, at most %d", len(text), MaxArguments)
	}
	return text, err
}

// once calls the tool of a step one time.
func (r *run) once(ctx context.Context, s *step, arguments json.RawMessage) outcome {
	result, err := r.caller.Call(ctx, s.tool, arguments)
	if err == nil && len(result) > MaxResult {
		err = fmt.Errorf("the result has %d bytes, at most %d", len(result), MaxResult)
	}
	if err == nil {
		err = r.hold(len(result)) // before it is read, which takes far more room
	}
	if err != nil {
		return failedBy(fmt.Errorf("tool %q: %w", s.tool, err))
	}
	o := readResult(result)
	if o.err != nil {
		r.hold(-len(result))
		o.err = fmt.Errorf("tool %q: %w", s.tool, o.err)
	}
	return o
}

// runElicitation does a step that asks a person.
func runElicitation(ctx context.Context, r *run, s *step) outcome {
	if r.caller.Ask == nil {
		return failedBy(errors.New("the client has no way to ask the person: it does not offer elicitation"))
	}
	message, err := r.fill(ctx, s.message, r.root(s), MaxArguments)
	if err != nil {
		return failedBy(fmt.Errorf("message: %w", err))
	}
	action, content, err := r.caller.Ask(ctx, message, s.schema)
	if err != nil && errors.Is(context.Cause(ctx), errTimedOut) && s.onStop != "abort" { // an answer that does not come is none
		return r.unanswered("timeout", s.onStop)
	}
	switch {
	case err != nil:
		return failedBy(err)
	case action == "accept":
		return r.accepted(content, s)
	case action == "decline":
		return r.unanswered(action, s.onDecline)
	case action == "cancel":
		return r.unanswered(action, s.onStop)
	}
	return failedBy(fmt.Errorf("the answer is %.40q: want accept, decline or cancel", action))
}

// accepted reads what a person answered.
func (r *run) accepted(content json.RawMessage, s *step) outcome {
	if len(content) > MaxArguments {
		return failedBy(fmt.Errorf("the answer has %d bytes, at most %d", len(content), MaxArguments))
	}
	if err := r.hold(len(content)); err != nil {
		return failedBy(err)
	}
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if err := policy.Fits(s.schema, content); err != nil {
		return failedBy(fmt.Errorf("the answer does not fit: %w", err))
	}
	v, err := decode(content)
	if err != nil {
		return failedBy(fmt.Errorf("the answer cannot be read: %w", err))
	}
	return outcome{status: completed, output: map[string]any{"action": "accept", "content": v}}
}

// unanswered goes on after a person who did not accept.
func (r *run) unanswered(why, action string) outcome {
	output := map[string]any{"action": why}
	switch action {
	case "continue":
	case "skip_remaining":
		r.mu.Lock()
		r.skipping = true
		r.mu.Unlock()
		output["skipped"] = true
	default:
		return failedBy(fmt.Errorf("the person did not accept: %s", why))
	}
	return outcome{status: completed, output: output}
}
