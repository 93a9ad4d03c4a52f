package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// sessionFile is the ledger, in the VM's folder.
const sessionFile = "session.db"

// Ledger returns the VM's ledger, opened when it is first needed. A file that is
// corrupt is set aside, and the VM goes on with a new one.
func (v *Sandbox) Ledger() (*ledger.DB, error) { return v.openLedger(nil) }

// openLedger is Ledger, with more values that are never to be written.
func (v *Sandbox) openLedger(secrets []string) (*ledger.DB, error) {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	switch {
	case v.ledgerClosed:
		return nil, fmt.Errorf("%w: vm %s", fs.ErrNotExist, v.Name())
	case v.ledger != nil:
		v.ledger.AddSecrets(secrets...)
		return v.ledger, nil
	}
	v.secrets = append(v.secrets, secrets...)
	path := filepath.Join(v.Dir(), sessionFile)
	opt := ledger.Options{
		Limit: v.LedgerLimit(), Told: v.recordsDropped, Committed: v.service.cfg.Telemetry.Commit,
		Wrote: func(table string, r ledger.Row) { v.service.cfg.Telemetry.Row(v.Name(), table, r) },
	}
	db, err := ledger.Open(path, opt)
	if errors.Is(err, ledger.ErrCorrupt) {
		kept, aside := ledger.SetAside(path)
		if aside != nil {
			return nil, err
		}
		v.service.log.Error("session.db was corrupt and is set aside", "vm", v.Name(), "kept", kept, "err", err)
		err = fmt.Errorf("%w: kept as %s", err, kept)
		v.LastErr.Set(err)
		e := v.event(eventDamaged, fs.Text(err))
		v.tasks.begin(func() { v.tell(ledger.VMs, e) }) // which writes to the new one
		db, err = ledger.Open(path, opt)
	}
	if err != nil {
		return nil, err
	}
	db.AddSecrets(v.secrets...)
	v.ledger, v.secrets = db, nil
	return db, nil
}

// limitLedger gives the ledger the limit that config has now.
func (v *Sandbox) limitLedger() {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	if v.ledger != nil {
		v.ledger.SetLimit(v.LedgerLimit())
	}
}

// recordsDropped tells of records that went, which the ledger itself has noted.
func (v *Sandbox) recordsDropped(text string) {
	v.service.announce(v.event(ledger.EventDropped, text))
}

// eventDamaged is the event of a file that was not as it should be.
const eventDamaged = "damaged"

// record appends a row to one of the VM's tables, without waiting.
func (v *Sandbox) record(table string, r ledger.Row) {
	db, err := v.Ledger()
	if err == nil {
		err = db.Queue(v.ctx, table, r)
	}
	if err != nil && v.repeats.allow(subject{kind: notRecorded}, table+": "+fs.Text(err), 1) {
		v.service.log.Warn(notRecorded, "vm", v.Name(), "table", table, "err", err)
	}
}

func (v *Sandbox) closeLedger() {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	v.ledgerClosed = true
	if v.ledger != nil {
		v.ledger.Close()
		v.ledger = nil
	}
}

// recordsLine tells how much of the VM's records is kept, and how many of them
// were met that cannot be read.
func (v *Sandbox) recordsLine() string {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	if v.ledger == nil {
		return ""
	}
	line := fmt.Sprintf("records %.1fMiB of %.1fMiB by dropping the oldest\n", float64(v.ledger.Kept())/(1<<20), float64(v.LedgerLimit())/(1<<20))
	if n := v.ledger.Unreadable(); n > 0 {
		line += fmt.Sprintf("unreadable %d\n", n)
	}
	return line
}
