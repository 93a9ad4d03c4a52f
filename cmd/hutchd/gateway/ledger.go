package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// SessionFile is the ledger, in the folder of whose it is.
const SessionFile = "session.db"

// ledgerIdle is how long a ledger stays open that nobody asks for, of a
// gateway that is idle.
const ledgerIdle = 5 * time.Minute

// Ledger returns the ledger, opened when it is first needed. A file that is corrupt
// is set aside, and a new one takes its place. While the gateway is idle it may be
// closed after ledgerIdle: who needs it for longer uses HoldLedger.
func (g *Gateway) Ledger() (*ledger.DB, error) {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	return g.openLedger()
}

// HoldLedger returns the ledger, which stays open until it is released, closed or
// replaced.
func (g *Gateway) HoldLedger() (db *ledger.DB, release func(), err error) {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	if db, err = g.openLedger(); err != nil {
		return nil, nil, err
	}
	g.ledgerHeld++
	return db, sync.OnceFunc(func() {
		g.ledgerMu.Lock()
		defer g.ledgerMu.Unlock()
		g.ledgerHeld--
		g.ledgerUsed = time.Now()
	}), nil
}

// restLedger closes the ledger of a gateway that is idle if nobody uses it: there
// may be many, which a query over all had opened.
func (g *Gateway) restLedger() {
	idle := g.cfg.Idle()
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	limit := g.ledgerIdle()
	switch left := limit - time.Since(g.ledgerUsed); {
	case g.ledger == nil:
	case !idle || g.ledgerHeld > 0 || g.ledger.Busy():
		g.ledgerRests.Reset(limit)
	case left > 0: // it was used meanwhile
		g.ledgerRests.Reset(left)
	default:
		g.shutLedger()
	}
}

func (g *Gateway) ledgerIdle() time.Duration { return cmp.Or(g.service.LedgerIdle, ledgerIdle) }

// openLedger is Ledger. Its caller holds ledgerMu.
func (g *Gateway) openLedger() (*ledger.DB, error) {
	g.ledgerUsed = time.Now()
	switch {
	case g.ledgerClosed:
		return nil, g.gone()
	case g.ledger != nil:
		return g.ledger, nil
	}
	path := filepath.Join(g.cfg.Dir, SessionFile)
	opt := ledger.Options{
		Limit: g.cfg.LedgerLimit(), Red: &g.red, Told: g.recordsDropped, Committed: g.service.Telemetry.Commit,
		Wrote: func(table string, r ledger.Row) { g.service.Telemetry.Row(g.Whose(), table, r) },
	}
	db, err := ledger.Open(path, opt)
	if errors.Is(err, ledger.ErrCorrupt) {
		kept, aside := ledger.SetAside(path)
		if aside != nil {
			return nil, err
		}
		g.service.Log.Error("session.db was corrupt and is set aside", g.cfg.Kind, g.cfg.Name(), "kept", kept, "err", err)
		err = fmt.Errorf("%w: kept as %s", err, kept)
		g.LastErr.Set(err)
		e := g.NewEvent(eventDamaged, fs.Text(err))
		g.tasks.Begin(func() { g.Tell(ledger.VMs, e) }) // which writes to the new one
		db, err = ledger.Open(path, opt)
	}
	if err != nil {
		return nil, err
	}
	g.ledger, g.ledgerRests = db, time.AfterFunc(g.ledgerIdle(), g.restLedger)
	return db, nil
}

// limitLedger gives the ledger the limit that config has now.
func (g *Gateway) limitLedger() {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	if g.ledger != nil {
		g.ledger.SetLimit(g.cfg.LedgerLimit())
	}
}

// recordsDropped tells of records that went, which the ledger itself has noted.
func (g *Gateway) recordsDropped(text string) {
	g.announce(g.NewEvent(ledger.EventDropped, text))
}

// eventDamaged is the event of a file that was not as it should be.
const eventDamaged = "damaged"

// Record appends a row to one of the ledger's tables, without waiting.
func (g *Gateway) Record(table string, r ledger.Row) {
	db, err := g.Ledger()
	if err == nil {
		err = db.Queue(g.ctx, table, r)
	}
	if err != nil && g.repeats.allow(subject{kind: notRecorded}, table+": "+fs.Text(err), 1) {
		g.service.Log.Warn(notRecorded, g.cfg.Kind, g.cfg.Name(), "table", table, "err", err)
	}
}

// RowBegun tells readers of a table's text of what will be a row, if that takes long.
func (g *Gateway) RowBegun(table string, r ledger.Row) (stop func()) {
	return ledger.IfLong(func() {
		if db, err := g.Ledger(); err == nil {
			db.RowBegun(g.ctx, table, r)
		}
	})
}

// maxShown is how many calls under way CallLines has a line for.
const maxShown = 64

// CallLines has a line for each call under way.
func (g *Gateway) CallLines() string {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	if g.ledger == nil {
		return ""
	}
	var b strings.Builder
	list := g.ledger.UnderWay()
	for _, c := range list[:min(len(list), maxShown)] {
		fmt.Fprintf(&b, "call %d %s %s\n", c.ID, time.Since(c.Begun).Round(time.Millisecond), g.Hides(strings.TrimSpace(c.Method+" "+fs.QuoteLine(c.Tool))))
	}
	return b.String()
}

func (g *Gateway) closeLedger() {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	g.ledgerClosed = true
	g.shutLedger()
}

// shutLedger closes the ledger if it is open. Its caller holds ledgerMu.
func (g *Gateway) shutLedger() {
	if g.ledger != nil {
		g.ledgerRests.Stop()
		g.ledger.Close()
		g.ledger = nil
	}
}

// RecordsLine tells how much of the records is kept, and how many of them were met
// that cannot be read.
func (g *Gateway) RecordsLine() string {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	if g.ledger == nil {
		return ""
	}
	line := fmt.Sprintf("records %.1fMiB of %.1fMiB by dropping the oldest\n", float64(g.ledger.Kept())/(1<<20), float64(g.cfg.LedgerLimit())/(1<<20))
	if n := g.ledger.Unreadable(); n > 0 {
		line += fmt.Sprintf("unreadable %d\n", n)
	}
	return line
}

// ReplaceRecords has do replace the file of the ledger, whose followers come to its
// end, and what was approved of servers' tools.
func (g *Gateway) ReplaceRecords(do func() error) error {
	g.ledgerMu.Lock()
	defer g.ledgerMu.Unlock()
	g.shutLedger()
	defer g.pins.Forget()
	return do()
}
