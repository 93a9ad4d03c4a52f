package tree

import (
	"context"
	"strings"
	"syscall"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// serviceLog opens the log of this run of hutchd.
func serviceLog(follow bool) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		return c.At.s.cfg.ServiceLog.Open(follow, flags&syscall.O_NONBLOCK != 0), nil
	}
}

func serviceLogSize(c call) uint64 { return c.At.s.cfg.ServiceLog.Size() }

func readLog(l *fs.Log) string {
	h := l.Open(false, false)
	var b strings.Builder
	p := make([]byte, 64<<10)
	for {
		n, _ := h.ReadAt(context.Background(), p, int64(b.Len()))
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}

// ledgerLog opens a table of the ledger as text, a JSON line a record.
func ledgerLog(table string, follow bool) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		db, release, err := c.At.gw.HoldLedger()
		if err != nil {
			return nil, err
		}
		nonblock := flags&syscall.O_NONBLOCK != 0
		if !follow || nonblock {
			if err := db.Settle(c.Ctx); err != nil {
				release()
				return nil, err
			}
		}
		return &tableHandle{log: db.Log(table).Reader(), follow: follow, nonblock: nonblock, release: release}, nil
	}
}

func ledgerSize(table string) func(call) uint64 {
	return func(c call) uint64 {
		db, err := c.At.gw.Ledger()
		if err != nil || db.Settle(c.Ctx) != nil {
			return 0
		}
		begin, end := db.Log(table).Span()
		return uint64(end - begin)
	}
}

// tableHandle is an open table.
type tableHandle struct {
	fs.MadeUp
	log              *ledger.Reader
	follow, nonblock bool
	release          func()
}

func (h *tableHandle) Stream() bool { return h.follow }

func (h *tableHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := h.log.ReadAt(ctx, p, off, h.follow && !h.nonblock)
	if n == 0 && err == nil && h.follow && h.nonblock {
		return 0, fs.ErrAgain
	}
	return n, err
}

func (h *tableHandle) Close() error {
	h.release()
	return nil
}

func rootEvents(c call, flags int) (fs.Handle, error) {
	return c.At.s.Events.Open(true, flags&syscall.O_NONBLOCK != 0), nil
}
