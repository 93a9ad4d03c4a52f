package sandbox

import (
	"context"
	"strings"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/workspace"
	"hutch/vmm"
)

// An Event is one line of events: what happened to a VM, or what was refused it.
type Event struct {
	Time time.Time `json:"timestamp"`
	VM   string    `json:"vm"`
	Kind string    `json:"event"`
	Rule string    `json:"rule,omitempty"` // that a refusal is by
	Text string    `json:"text,omitempty"`

	Trace string `json:"trace_id,omitempty"` // that it is part of
}

// event is one about the VM that happens now.
func (v *Sandbox) event(kind, text string) Event {
	return Event{Time: time.Now(), VM: v.Name(), Kind: kind, Text: text}
}

// Event is told what happens to the VM. That it failed is its last error,
// whether a client waits for it or not.
func (v *Sandbox) Event(e vmm.Event) {
	switch e.Kind {
	case vmm.EventPosed, vmm.EventRefused:
		v.alert(string(e.Kind), "", e.Text)
		return
	case vmm.EventFailed:
		if err := v.Err(); err != nil {
			v.LastErr.Set(err)
		}
	}
	trace := v.causeOf(e.Text)
	v.tell(ledger.VMs, Event{Time: e.Time, VM: e.VM, Kind: string(e.Kind), Text: e.Text, Trace: trace})
	switch e.Kind {
	case vmm.EventSnapshot, vmm.EventReverted, vmm.EventDropped, vmm.EventUndone:
		v.recordSnapshot(e, trace)
	case vmm.EventStarting:
		v.starting.Store(&e.Time)
	case vmm.EventRunning, vmm.EventFailed, vmm.EventStopped:
		v.tellBoot(e)
	}
	v.service.cfg.Event(v, e)
}

// tellBoot tells how a start went that e ends. What ends something else tells nothing.
func (v *Sandbox) tellBoot(e vmm.Event) {
	if began := v.starting.Swap(nil); began != nil {
		v.service.cfg.Telemetry.Boot(v.Name(), v.Config().Driver, *began, e.Time.Sub(*began), e.Kind == vmm.EventRunning)
	}
}

// maxEvents is how much of the service's events is kept in memory, in bytes.
const maxEvents = 1 << 20

// tell records an event of the sandbox, in another table of its ledger, too, if
// it belongs there, and announces it.
func (v *Sandbox) tell(table string, e Event) {
	e = v.service.announce(e)
	if table != ledger.VMs {
		r := ledger.Row{"timestamp": e.Time, "event": e.Kind, "text": e.Text, "trace_id": e.Trace}
		if e.Rule != "" {
			r["rule"] = e.Rule
		}
		v.record(table, r)
	}
	c := v.Config()
	v.record(ledger.VMs, ledger.Row{
		"timestamp": e.Time, "event": e.Kind, "text": e.Text, "trace_id": e.Trace,
		"state": string(v.State()), "driver": c.Driver, "image": c.Image,
	})
}

// announce tells of an event of the service, but records it nowhere.
func (s *Service) announce(e Event) Event {
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	if line, err := fs.MarshalLine(e); err == nil {
		s.Events.Append(line)
		s.log.Info(e.Kind, "vm", e.VM, "text", e.Text)
	}
	return e
}

// recordSnapshot records that a snapshot was taken, dropped or reverted to.
func (v *Sandbox) recordSnapshot(e vmm.Event, trace string) {
	r := ledger.Row{"timestamp": e.Time, "event": string(e.Kind), "name": e.Text, "trace_id": trace}
	if e.Kind == vmm.EventUndone {
		id, text, _ := strings.Cut(e.Text, ": ")
		r["name"], r["text"] = id, text
	}
	if i, err := v.Snapshots().Get(e.Text); err == nil && e.Kind != vmm.EventDropped {
		r["state"], r["automatic"] = i.State, 0
		if i.Automatic {
			r["automatic"] = 1
		}
		r["files"], r["bytes"], r["shared"] = i.Cost.Files, i.Cost.Bytes, i.Cost.Shared
		r["linked"], r["copied"] = i.Cost.Linked, i.Cost.Copied
		r["frozen_ms"], r["duration_ms"] = i.Frozen, i.Cost.Time
	}
	v.record(ledger.Snapshots, r)
}

// causing returns do as something that a call of a trace does to a snapshot.
func (v *Sandbox) causing(do func(ctx context.Context, name string) error) func(ctx context.Context, name, trace string) error {
	return func(ctx context.Context, name, trace string) error {
		v.mu.Lock()
		v.causes[name] = trace
		v.mu.Unlock()
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.causes, name)
		}()
		return do(ctx, name)
	}
}

// causeOf returns the trace id of the call that does something to a snapshot now.
func (v *Sandbox) causeOf(name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.causes[name]
}

// snapshotsFor is what the MCP tools can do with the VM's snapshots.
func (v *Sandbox) snapshotsFor() workspace.Snapshots {
	m := v.VM
	return workspace.Snapshots{
		Take: v.causing(m.Snap), Changes: m.GuestDiff, Drop: v.causing(m.DropSnapshot),
		List: func() ([]workspace.Snapshot, error) {
			all, err := m.Snapshots().List()
			var list []workspace.Snapshot
			for _, i := range all {
				list = append(list, workspace.Snapshot{
					Name: i.Name, Taken: i.Taken.UTC().Format(time.RFC3339), Automatic: i.Automatic,
					Files: i.Cost.Files, Bytes: i.Cost.Bytes, Undo: i.Undo,
				})
			}
			return list, err
		},
		Hold: func(name string) (string, func(), error) {
			_, release, err := m.Snapshots().Hold(name)
			return m.ShownPart(name, "work"), release, err
		},
	}
}
