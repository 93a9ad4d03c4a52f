package composite

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
)

// runForEach does a step that calls a tool for each item of a list.
func runForEach(ctx context.Context, r *run, s *step) outcome {
	root := r.root(s)
	items, err := r.items(ctx, s, root)
	if err != nil {
		return failedBy(fmt.Errorf("collection: %w", err))
	}
	rounds := make([]outcome, len(items))
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(s.parallel)
	for i, item := range items {
		if within.Err() != nil {
			break
		}
		g.Go(func() error {
			o := r.round(within, s, root, i, item)
			rounds[i] = o
			if o.err != nil && (!s.goOn || ctx.Err() != nil) {
				return fmt.Errorf("item %d: %w", i, o.err)
			}
			return nil
		})
	}
	if err := orCause(ctx, g.Wait()); err != nil { // the time may be over between two items
		return failedBy(err)
	}
	return gathered(items, rounds)
}

// items returns the list that a step goes through, and holds it. What is null has none.
func (r *run) items(ctx context.Context, s *step, root map[string]any) ([]any, error) {
	text, err := r.fill(ctx, s.list, root, MaxMade)
	if err != nil {
		return nil, err
	}
	v, err := decode([]byte(text))
	items, ok := v.([]any)
	switch {
	case err != nil || !ok && v != nil:
		return nil, fmt.Errorf("%.64q is no JSON array", text)
	case len(items) > s.iterations:
		return nil, fmt.Errorf("%d items, at most %d by maxIterations", len(items), s.iterations)
	}
	return items, r.hold(len(text))
}

// round calls the tool for one item.
func (r *run) round(ctx context.Context, s *step, root map[string]any, i int, item any) outcome {
	root = maps.Clone(root)
	root["forEach"] = map[string]any{s.item: item, "index": int64(i)}
	limited, cancel := context.WithTimeoutCause(ctx, s.inner.timeout, errTimedOut)
	defer cancel()
	return r.call(limited, s.inner, root)
}

// gathered makes one outcome of those of all items.
func gathered(items []any, rounds []outcome) outcome {
	list, good := make([]any, len(rounds)), 0
	for i, o := range rounds {
		seen := map[string]any{"index": int64(i), "item": items[i], "status": o.status, "output": o.output}
		if o.err != nil {
			seen["error"] = o.err.Error()
		} else {
			good++
		}
		list[i] = seen
	}
	n := int64(len(rounds))
	return outcome{status: completed, output: map[string]any{
		"iterations": list, "count": n, "completed": int64(good), "failed": n - int64(good),
	}}
}
