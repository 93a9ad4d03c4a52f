package gateway

import (
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// An Event is one line of events: what happened, or what was refused.
type Event struct {
	Time   time.Time `json:"timestamp"`
	VM     string    `json:"vm,omitempty"`
	Server string    `json:"server,omitempty"`
	Group  string    `json:"group,omitempty"`
	Kind   string    `json:"event"`
	Rule   string    `json:"rule,omitempty"` // that a refusal is by
	Text   string    `json:"text,omitempty"`

	Trace string `json:"trace_id,omitempty"` // that it is part of
}

// The kinds of what a gateway is of.
const (
	VM     = "vm"
	Server = "server"
	Group  = "group"
)

// NewEvent is one about whose the gateway is that happens now.
func (g *Gateway) NewEvent(kind, text string) Event {
	e := Event{Time: time.Now(), Kind: kind, Text: text}
	switch name := g.cfg.Name(); g.cfg.Kind {
	case VM:
		e.VM = name
	case Server:
		e.Server = name
	case Group:
		e.Group = name
	}
	return e
}

// eventCall is the event of a call that is under way for longer than ledger.After.
const eventCall = "call"

// MaxEvents is how much of the service's events is kept in memory, in bytes.
const MaxEvents = 1 << 20

// Tell records an event, in another table of the ledger, too, if it belongs
// there, and announces it.
func (g *Gateway) Tell(table string, e Event) {
	e = g.announce(e)
	if table != ledger.VMs {
		r := ledger.Row{"timestamp": e.Time, "event": e.Kind, "text": e.Text, "trace_id": e.Trace}
		if e.Rule != "" {
			r["rule"] = e.Rule
		}
		g.Record(table, r)
	}
	r := g.cfg.State()
	r["timestamp"], r["event"], r["text"], r["trace_id"] = e.Time, e.Kind, e.Text, e.Trace
	g.Record(ledger.VMs, r)
}

// announce tells of an event, but records it nowhere.
func (g *Gateway) announce(e Event) Event {
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	if line, err := fs.MarshalLine(e); err == nil {
		g.service.Events.Append(line)
		g.service.Log.Info(e.Kind, g.cfg.Kind, g.cfg.Name(), "text", e.Text)
	}
	return e
}
