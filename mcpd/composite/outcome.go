package composite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hutch/aggd/rawjson"
)

// What may have become of a step.
const (
	completed = "completed"
	failed    = "failed"
	skipped   = "skipped"
)

// An outcome is what came of a step: what templates see of it.
type outcome struct {
	status  string
	output  any
	content map[string]any // the blocks of a tool's result
	err     error
}

func failedBy(err error) outcome { return outcome{status: failed, err: err} }

// keep notes the outcome of a step.
func (r *run) keep(s *step, o outcome) {
	if o.err != nil {
		o.output = orNone(s.defaults)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[s.id] = o
}

// hold takes room for what is to be kept until the run ends.
func (r *run) hold(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if size > MaxResults-r.held {
		return fmt.Errorf("the results have more than %d bytes together", MaxResults)
	}
	r.held += size
	return nil
}

// orNone returns the default results of a step, nil where there are none.
func orNone(defaults map[string]any) any {
	if defaults == nil {
		return nil
	}
	return defaults
}

// root returns what the templates of a step may read: of the steps, those that it
// comes after. It is all of them where s is nil.
func (r *run) root(s *step) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	status, count, steps := "running", 0, map[string]any{}
	if s == nil {
		status = completed
	}
	for id, o := range r.outcomes {
		if o.status == completed {
			count++
		}
		if s == nil || s.before[id] {
			steps[id] = o.seen()
		}
	}
	return map[string]any{
		"params": r.params,
		"steps":  steps,
		"workflow": map[string]any{
			"id": r.id, "status": status, "step_count": int64(count),
			"start_time": r.began.UTC().Format(time.RFC3339), "duration_ms": time.Since(r.began).Milliseconds(),
		},
	}
}

func (o outcome) seen() map[string]any {
	seen := map[string]any{"status": o.status, "output": o.output, "content": o.content}
	if o.err != nil {
		seen["error"] = o.err.Error()
	}
	return seen
}

// result returns the result of a run whose steps are done.
func (r *run) result(ctx context.Context) (json.RawMessage, error) {
	var made any
	if r.tool.output != nil {
		output, err := r.tool.output.make(ctx, r)
		if err != nil {
			return nil, err
		}
		made = output
	} else {
		made = r.last()
	}
	text, err := marshal(made)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxResults {
		return nil, fmt.Errorf("the output has %d bytes, at most %d", len(text), MaxResults)
	}
	result := map[string]any{"content": []any{textBlock(string(text))}}
	if text[0] == '{' {
		result["structuredContent"] = json.RawMessage(text)
	}
	return marshal(result)
}

// last returns the output of the last step that was not skipped and did not fail.
func (r *run) last() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.tool.steps) - 1; i >= 0; i-- {
		if o := r.outcomes[r.tool.steps[i].id]; o.status == completed {
			return o.output
		}
	}
	return map[string]any{}
}

// failure returns the result of a run that failed.
func failure(err error) (json.RawMessage, error) {
	return marshal(map[string]any{"content": []any{textBlock(err.Error())}, "isError": true})
}

func textBlock(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// The members of a tool's result that count here.
const (
	inContent = iota
	inStructured
	inError
)

var inResult = []string{"content", "structuredContent", "isError"}

// readResult returns what a tool's result says.
func readResult(text json.RawMessage) outcome {
	spans := make([]rawjson.Span, len(inResult))
	if err := rawjson.Members(text, inResult, spans); err != nil {
		return failedBy(fmt.Errorf("the result cannot be read: %w", err))
	}
	content, err := blocks(spans[inContent].Of(text))
	if err != nil {
		return failedBy(fmt.Errorf("the result cannot be read: content: %w", err))
	}
	if string(spans[inError].Of(text)) == "true" {
		said, _ := content["text"].(string)
		if said == "" {
			said = "the tool says that it failed, and not why"
		}
		// Nothing holds room for it: there is one of each item, and of each step.
		return failedBy(errors.New(strings.ToValidUTF8(strings.Clone(said[:min(len(said), MaxText)]), "")))
	}
	o := outcome{status: completed, output: content, content: content}
	if structured := spans[inStructured].Of(text); structured != nil && string(structured) != "null" {
		if o.output, err = decode(structured); err != nil {
			return failedBy(fmt.Errorf("the result cannot be read: structuredContent: %w", err))
		}
	}
	return o
}

// blocks names the texts, images and resources among the blocks of a result: text,
// text_1, text_2; image_0, image_1; resource, resource_1.
func blocks(text json.RawMessage) (map[string]any, error) {
	var list []struct {
		Type, Text, Data string
		Resource         struct{ Text, Blob string }
	}
	if text != nil {
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
	}
	named, count := map[string]any{}, map[string]int{}
	for _, b := range list {
		value := map[string]string{"text": b.Text, "image": b.Data, "resource": cmp.Or(b.Resource.Text, b.Resource.Blob)}
		v, ok := value[b.Type]
		if !ok {
			continue
		}
		name := b.Type
		if n := count[b.Type]; n > 0 || name == "image" {
			name = fmt.Sprintf("%s_%d", name, n)
		}
		named[name] = v
		count[b.Type]++
	}
	return named, nil
}
