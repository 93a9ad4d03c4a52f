package tree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// db returns the VM's ledger, opened when it is first needed. A file that is
// corrupt is set aside, and the VM goes on with a new one.
func (v *vm) db() (*ledger.DB, error) { return v.dbWithout(nil) }

// dbWithout is db, with more values that are never to be written.
func (v *vm) dbWithout(secrets []string) (*ledger.DB, error) {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	switch {
	case v.closed:
		return nil, fmt.Errorf("%w: vm %s", fs.ErrNotExist, v.Name())
	case v.ledger != nil:
		v.ledger.AddSecrets(secrets...)
		return v.ledger, nil
	}
	v.secrets = append(v.secrets, secrets...)
	path := filepath.Join(v.Dir(), "session.db")
	opt := ledger.Options{Limit: v.LedgerLimit(), Told: v.recordsDropped}
	db, err := ledger.Open(path, opt)
	if errors.Is(err, ledger.ErrCorrupt) {
		kept, aside := ledger.SetAside(path)
		if aside != nil {
			return nil, err
		}
		v.s.log.Error("session.db was corrupt and is set aside", "vm", v.Name(), "kept", kept, "err", err)
		err = fmt.Errorf("%w: kept as %s", err, kept)
		v.err.set(err)
		text := fs.Text(err)
		v.later(func(context.Context) error { // which writes to the new one
			v.s.tell(v, ledger.VMs, Event{Time: time.Now(), VM: v.Name(), Kind: eventDamaged, Text: text})
			return nil
		})
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
func (v *vm) limitLedger() {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	if v.ledger != nil {
		v.ledger.SetLimit(v.LedgerLimit())
	}
}

// recordsDropped tells of records that went, which the ledger itself has noted.
func (v *vm) recordsDropped(text string) {
	v.s.announce(Event{Time: time.Now(), VM: v.Name(), Kind: ledger.EventDropped, Text: text})
}

// eventDamaged is the event of a file that was not as it should be.
const eventDamaged = "damaged"

// record appends a row to one of the VM's tables, without waiting.
func (v *vm) record(table string, r ledger.Row) {
	db, err := v.db()
	if err == nil {
		err = db.Queue(v.ctx, table, r)
	}
	if err != nil && v.repeats.among(subject{kind: notRecorded}, table+": "+fs.Text(err), 1) {
		v.s.log.Warn(notRecorded, "vm", v.Name(), "table", table, "err", err)
	}
}

func (v *vm) closeLedger() {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	v.closed = true
	if v.ledger != nil {
		v.ledger.Close()
		v.ledger = nil
	}
}

func mcpCalls(follow bool) func(call, int) (fs.Handle, error) {
	return ledgerLog(ledger.Calls, follow)
}

// ledgerLog opens a table of the ledger as text, a JSON line a record.
func ledgerLog(table string, follow bool) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		db, err := c.At.vm.db()
		if err != nil {
			return nil, err
		}
		nonblock := flags&syscall.O_NONBLOCK != 0
		if !follow || nonblock {
			if err := settle(c, db); err != nil {
				return nil, err
			}
		}
		return &tableHandle{log: db.Log(table).Reader(), follow: follow, nonblock: nonblock}, nil
	}
}

func ledgerSize(table string) func(call) uint64 {
	return func(c call) uint64 {
		db, err := c.At.vm.db()
		if err != nil || settle(c, db) != nil {
			return 0
		}
		begin, end := db.Log(table).Span()
		return uint64(end - begin)
	}
}

// settle has the ledger write what it was told, so that who reads to the end
// finds the call that was just answered.
func settle(c call, db *ledger.DB) error {
	err := db.Flush(c.Ctx)
	if fs.Errno(err) == fs.Errno(fs.ErrNoSpace) {
		return nil // what was written can be read all the same
	}
	return err
}

// tableHandle is an open table.
type tableHandle struct {
	log              *ledger.Reader
	follow, nonblock bool
}

func (h *tableHandle) Stream() bool { return h.follow }

func (h *tableHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := h.log.ReadAt(ctx, p, off, h.follow && !h.nonblock)
	if n == 0 && err == nil && h.follow && h.nonblock {
		return 0, fs.ErrAgain
	}
	return n, err
}

func (h *tableHandle) WriteAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

func (h *tableHandle) Close() error { return nil }

// recordsLine tells how much of the VM's records is kept.
func (v *vm) recordsLine() string {
	v.ledgerMu.Lock()
	defer v.ledgerMu.Unlock()
	if v.ledger == nil {
		return ""
	}
	return fmt.Sprintf("records %.1fMiB of %.1fMiB by dropping the oldest\n", float64(v.ledger.Kept())/(1<<20), float64(v.LedgerLimit())/(1<<20))
}
