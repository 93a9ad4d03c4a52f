package sandbox

import (
	"context"
	"strings"
	"time"

	"hutch/cmd/hutchd/gateway"
	"hutch/mcpd/ledger"
	"hutch/mcpd/workspace"
	"hutch/vmm"
)

// Event is told what happens to the VM. That it failed is its last error,
// whether a client waits for it or not.
func (v *Sandbox) Event(e vmm.Event) {
	switch e.Kind {
	case vmm.EventPosed, vmm.EventRefused:
		v.Alert(string(e.Kind), "", e.Text)
		return
	case vmm.EventFailed:
		if err := v.Err(); err != nil {
			v.LastErr.Set(err)
		}
	}
	trace := v.causeOf(e.Text)
	v.Tell(ledger.VMs, gateway.Event{Time: e.Time, VM: e.VM, Kind: string(e.Kind), Text: e.Text, Trace: trace})
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
		v.service.Telemetry.Boot(v.Name(), v.Config().Driver, *began, e.Time.Sub(*began), e.Kind == vmm.EventRunning)
	}
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
	v.Record(ledger.Snapshots, r)
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
