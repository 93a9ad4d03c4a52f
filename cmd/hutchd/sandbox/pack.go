package sandbox

import (
	"context"
	"io"
	"path/filepath"

	"hutch/cmd/hutchd/gateway"
	"hutch/mcpd/ledger"
	"hutch/vmm"
	"hutch/vmm/pack"
)

// Pack writes the VM with its records as an archive to w, with what want says.
func (v *Sandbox) Pack(ctx context.Context, w io.WriteCloser, want pack.Options) error {
	db, release, err := v.HoldLedger()
	if err != nil {
		return err
	}
	defer release()
	p, err := v.service.Profiles.Get(v.Config().Profile)
	if err != nil {
		return err
	}
	v.Hide(p.Secrets()...)
	return v.VM.Pack(ctx, w, want, vmm.PackHooks{
		Secret: func(name, value string) bool {
			text := name + "=" + value
			return v.Hides(text) != text || v.Hides(value) != value
		},
		Tables: db.Carry,
	})
}

// Unpack makes the VM, which was just made, what the archive says that r has. It
// calls whole when that has come to its end, and goes on when r has.
func (v *Sandbox) Unpack(ctx context.Context, r io.ReadCloser, want pack.Options, whole func()) error {
	var db *ledger.DB
	return v.VM.Unpack(ctx, r, want, vmm.PackHooks{
		Table: func(ctx context.Context, dir, name string, r io.Reader) (err error) {
			if db == nil {
				if db, err = ledger.Open(filepath.Join(dir, gateway.SessionFile), ledger.Options{}); err != nil {
					return err
				}
			}
			return db.Receive(ctx, name, r)
		},
		TablesDone: func(string) error {
			if db == nil {
				return nil
			}
			return db.Close()
		},
		Replace: v.ReplaceRecords,
	}, whole)
}
