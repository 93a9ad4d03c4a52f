package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/vmm"
)

// sessionFile is the ledger, in the VM's folder.
const sessionFile = "session.db"

// ledgerIdle is how long a ledger stays open that nobody asks for, of a VM
// that has no machine.
const ledgerIdle = 5 * time.Minute

// Ledger returns the VM's ledger, opened when it is first needed. A file that is
// corrupt is set aside, and the VM goes on with a new one. Of a VM without a machine
// it may be closed after ledgerIdle: who needs it for longer uses HoldLedger.
func (v *Sandbox) Ledger() (*ledger.DB, error) {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	return v.openLedger()
}

// HoldLedger returns the VM's ledger, which stays open until it is released, or the
// VM is removed or unpacked into.
func (v *Sandbox) HoldLedger() (db *ledger.DB, release func(), err error) {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	if db, err = v.openLedger(); err != nil {
		return nil, nil, err
	}
	v.ledgerHeld++
	return db, sync.OnceFunc(func() {
		v.ledgerMu.Lock()
		defer v.ledgerMu.Unlock()
		v.ledgerHeld--
		v.ledgerUsed = time.Now()
	}), nil
}

// restLedger closes the ledger of a VM that has no machine if nobody uses it: there
// may be many such VMs, which a query over all had opened.
func (v *Sandbox) restLedger() {
	idle := slices.Contains([]vmm.State{vmm.Created, vmm.Stopped, vmm.Suspended, vmm.Failed}, v.State())
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	limit := v.ledgerIdle()
	switch left := limit - time.Since(v.ledgerUsed); {
	case v.ledger == nil:
	case !idle || v.ledgerHeld > 0 || v.ledger.Busy():
		v.ledgerRests.Reset(limit)
	case left > 0: // it was used meanwhile
		v.ledgerRests.Reset(left)
	default:
		v.shutLedger()
	}
}

func (v *Sandbox) ledgerIdle() time.Duration { return cmp.Or(v.service.cfg.LedgerIdle, ledgerIdle) }

// openLedger is Ledger. Its caller holds ledgerMu.
func (v *Sandbox) openLedger() (*ledger.DB, error) {
	v.ledgerUsed = time.Now()
	switch {
	case v.ledgerClosed:
		return nil, fmt.Errorf("%w: vm %s", fs.ErrNotExist, v.Name())
	case v.ledger != nil:
		return v.ledger, nil
	}
	path := filepath.Join(v.Dir(), sessionFile)
	opt := ledger.Options{
		Limit: v.LedgerLimit(), Red: &v.red, Told: v.recordsDropped, Committed: v.service.cfg.Telemetry.Commit,
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
	v.ledger, v.ledgerRests = db, time.AfterFunc(v.ledgerIdle(), v.restLedger)
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
	v.shutLedger()
}

// shutLedger closes the ledger if it is open. Its caller holds ledgerMu.
func (v *Sandbox) shutLedger() {
	if v.ledger != nil {
		v.ledgerRests.Stop()
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
