package sandbox

import (
	"time"

	"hutch/mcpd/ledger"
	"hutch/mcpd/workspace"
	"hutch/vmm"
)

// recordSnapshot records that a snapshot was taken, dropped or reverted to.
func (v *Sandbox) recordSnapshot(e vmm.Event) {
	r := ledger.Row{"timestamp": e.Time, "event": string(e.Kind), "name": e.Text}
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

// snapshotsOf is what the MCP tools can do with the snapshots of m.
func snapshotsOf(m *vmm.VM) workspace.Snapshots {
	return workspace.Snapshots{
		Take: m.Snap, Changes: m.GuestDiff, Drop: m.DropSnapshot,
		List: func() ([]workspace.Snapshot, error) {
			all, err := m.Snapshots().List()
			var list []workspace.Snapshot
			for _, i := range all {
				list = append(list, workspace.Snapshot{
					Name: i.Name, Taken: i.Taken.UTC().Format(time.RFC3339), Automatic: i.Automatic,
					Files: i.Cost.Files, Bytes: i.Cost.Bytes,
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
