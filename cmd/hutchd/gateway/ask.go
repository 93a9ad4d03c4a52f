package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hutch/aggd/rawjson"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/mcpd/asks"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// ask asks a person about something that is wanted, and returns what was
// answered: whether it may. The ledger has the question before anybody sees
// it, and then what came of it.
func (g *Gateway) ask(ctx context.Context, q mcpd.Question) policy.Decision {
	d := q.Decision
	text, err := g.questionText(q)
	if err == nil {
		err = g.askedOf(ctx, q)
	}
	if err != nil {
		d.Action, d.Reason, d.Code = policy.Block, "nobody can be asked: "+fs.Text(err), policy.NobodyAnswered
		return d
	}
	began, id := time.Now(), uint64(0)
	got := g.service.Asks.Ask(ctx, asks.Question{
		Ident: g.service.NextID(), Of: g.ID, Text: text, Limit: q.Limit, Always: g.allowAlways(*q.Event, q.Decision.Rule),
	}, func(a *asks.Ask) { id = a.ID })
	r := ledger.Row{
		"event": "answered", "family": q.Event.On, "what": q.Event.What(), "rule": d.Rule, "reason": d.Reason,
		"answer": got.Word, "answer_reason": got.Reason, "principal": got.Who, "waited_ms": time.Since(began),
		"trace_id": q.Event.Trace,
	}
	if id != 0 {
		r["ask"] = id
	}
	if q.Call != 0 {
		r["mcp_call_id"] = q.Call
	}
	g.Record(ledger.Asks, r)
	d.Action, d.Reason = policy.Block, cmp.Or(got.Reason, "a person refused it")
	switch {
	case got.Word == asks.TimedOut || got.Word == asks.TooMany:
		d.Code = policy.NobodyAnswered
	case got.Allow:
		d.Action, d.Reason = policy.Allow, got.Word+", by "+got.Who
	}
	return d
}

// allowAlways returns what has the user's layer of the profile allow an
// event from now on, about which the rule called asked asks, and gives that to
// the others that run by the profile.
func (g *Gateway) allowAlways(e policy.Event, asked string) func(context.Context, string, bool) error {
	return func(ctx context.Context, who string, exact bool) error {
		p, err := g.Policy()
		if err != nil {
			return err
		}
		r, err := p.Always(&e, asked, exact)
		if err != nil {
			return err
		}
		profile := g.cfg.Profile()
		r.Reason = fmt.Sprintf("%s allowed it always, %s", who, time.Now().UTC().Format(time.DateTime))
		if err := g.service.Profiles.AddRule(profile, r); err != nil {
			return err
		}
		g.learn(ctx)
		for _, other := range g.service.of(profile) {
			if other != g {
				other.Later(func(ctx context.Context) error {
					other.learn(ctx)
					return nil
				})
			}
		}
		return nil
	}
}

// learn gives the endpoint a rule that was added to its profile. The rule stands even if
// the rest of the profile cannot be handed out, as when a server is gone.
func (g *Gateway) learn(ctx context.Context) {
	if err := g.Configure(ctx); err != nil {
		g.Trouble("reload.failed", fs.Text(err))
	}
}

// askedOf records that a person is asked, and returns when that is durable.
func (g *Gateway) askedOf(ctx context.Context, q mcpd.Question) error {
	db, err := g.Ledger()
	if err != nil {
		return err
	}
	r := ledger.Row{
		"event": "asked", "family": q.Event.On, "what": q.Event.What(), "rule": q.Decision.Rule, "reason": q.Decision.Reason,
		"trace_id": q.Event.Trace,
	}
	if q.Call != 0 {
		r["mcp_call_id"] = q.Call
	}
	return db.Append(ctx, ledger.Asks, r)
}

// questionText is what a person is shown of an event: all that the policy is
// told of it, but for values that are known to be secret. What only looks like a
// secret is shown: a guest could hide behind such words what it wants.
func (g *Gateway) questionText(q mcpd.Question) (json.RawMessage, error) {
	e := *q.Event
	e.Schema = nil // which says nothing of this call
	text, err := rawjson.Encode(struct {
		policy.Event
		Rule   string `json:"rule"`
		Layer  string `json:"layer,omitempty"`
		Reason string `json:"reason,omitempty"`
	}{e, q.Decision.Rule, q.Decision.Layer, q.Decision.Reason})
	if err != nil {
		return nil, err
	}
	shown := []byte(g.red.Known(string(text)))
	if !json.Valid(shown) {
		return nil, fmt.Errorf("%w: what it is about has secrets, and cannot be shown without them", fs.ErrInvalid)
	}
	return rawjson.OneLine(shown), nil
}
