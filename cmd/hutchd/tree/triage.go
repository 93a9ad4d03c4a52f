package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/timeline"
)

// What is told of, unless it is said otherwise, and how much of it.
const (
	lately   = 30 * time.Minute
	slow     = 500 * time.Millisecond
	maxKinds = 1000 // of findings; of the others only how many there were
)

// A finding is what went wrong, or was slow, and how often it did.
type finding struct {
	First   string   `json:"first"`
	Last    string   `json:"last"`
	Count   int      `json:"count"`
	Kind    string   `json:"kind"` // crash, error, warning, dropped or slow
	VM      *string  `json:"vm"`   // nil: the service's
	Message string   `json:"message"`
	Detail  string   `json:"detail"` // the last time
	Most    *float64 `json:"max_ms"` // of what was slow
}

type findings map[string]*finding

// add adds something that happened once.
func (f findings) add(when, kind, vm, message, detail string, took *float64) {
	message, detail = plainWords(message), plainWords(detail)
	key := kind + "\x00" + vm + "\x00" + message
	if f[key] == nil && len(f) >= maxKinds {
		vm, message, detail, took = "", "others, of too many messages", "", nil
		key = kind
	}
	x := f[key]
	if x == nil {
		x = &finding{First: when, Last: when, Kind: kind, Message: message, Detail: detail}
		if vm != "" {
			x.VM = &vm
		}
		f[key] = x
	}
	x.Count++
	x.First = min(x.First, when)
	if when >= x.Last {
		x.Last, x.Detail = when, detail
	}
	if took != nil && (x.Most == nil || *took > *x.Most) {
		x.Most = took
	}
}

// openTriage opens what went wrong lately: the warnings and errors of the
// service's log, its crashes, what was dropped, and what was slow.
func openTriage(c call, flags int) (fs.Handle, error) {
	return c.At.s.openNarrowed(flags, timeline.Few, func(ctx context.Context, q timeline.Query) (string, error) {
		if q.Since.IsZero() {
			q.Since = time.Now().Add(-lately)
		}
		f := findings{}
		f.readLog(readLog(c.At.s.cfg.ServiceLog), stampOf(q.Since))
		if text, written, err := crashText(c.At.s.cfg.CrashLog); err == nil {
			for _, x := range crashesOf(text, written) {
				if x.Last >= stampOf(q.Since) {
					f.add(x.Last, "crash", "", x.Panic, x.Place, nil)
				}
			}
		}
		for _, v := range c.At.s.List() {
			if err := f.readLedger(ctx, v, q.Since); err != nil {
				return "", err
			}
		}
		list := slices.Collect(maps.Values(f))
		slices.SortFunc(list, func(a, b *finding) int {
			return cmp.Or(strings.Compare(a.Last, b.Last), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Message, b.Message))
		})
		return linesOf(list, q.Limit)
	})
}

// kinds are those of messages that stand in the log as what happened to a VM.
var kinds = map[string]string{
	"failed": "error", "damaged": "error", "oom": "error", "reload.failed": "error", "limit": "warning",
	"aggregator.died": "error", "server.died": "error", "proxy.died": "error", "storage.died": "error",
	ledger.EventDropped: "dropped", "not recorded": "dropped",
}

// readLog reads the service's log.
func (f findings) readLog(text, since string) {
	starts := map[string]time.Time{}
	for line := range strings.Lines(text) {
		m := logMembers(line)
		at, err := time.Parse(time.RFC3339Nano, m["time"])
		if err != nil {
			continue
		}
		when, message, vm := stampOf(at), m["msg"], m["vm"]
		switch began, known := starts[vm]; {
		case message == "starting":
			starts[vm] = at
		case message == "running" && known:
			delete(starts, vm)
			if took := at.Sub(began); took > slow && when >= since {
				ms := float64(took.Microseconds()) / 1000
				f.add(when, "slow", vm, "start", "", &ms)
			}
		}
		kind := cmp.Or(kinds[message], map[string]string{"WARN": "warning", "ERROR": "error"}[m["level"]])
		if kind != "" && when >= since {
			f.add(when, kind, vm, message, cmp.Or(m["err"], m["text"]), nil)
		}
	}
}

// logMembers returns the members of a line of the log, K=V each, V perhaps quoted.
func logMembers(line string) map[string]string {
	m := map[string]string{}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		key, rest, ok := strings.Cut(line, "=")
		if !ok {
			break
		}
		value := rest
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, _ = strconv.Unquote(quoted)
			line = rest[len(quoted):]
		} else {
			value, line, _ = strings.Cut(rest, " ")
		}
		m[key] = value
	}
	return m
}

// slowRow is what is looked at of rows that tell how long something took.
type slowRow struct {
	Took   float64 `json:"duration_ms"`
	Error  string  `json:"error_message"`
	Method string  `json:"method"`
	Tool   string  `json:"tool_name"`
	Op     string  `json:"operation"`
	Path   string  `json:"path"`
	Event  string  `json:"event"`
	Name   string  `json:"name"`
}

// readLedger reads what was slow of a VM, if it has done anything since.
func (f findings) readLedger(ctx context.Context, v *sandbox.Sandbox, since time.Time) error {
	if st, err := os.Stat(filepath.Join(v.Dir(), "session.db")); err != nil || st.ModTime().Before(since) {
		return nil
	}
	db, release, err := v.HoldLedger()
	if err != nil {
		return nil // which is told elsewhere
	}
	defer release()
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	within := ledger.All
	within.MinTime = stampOf(since)
	for i, table := range ledger.Tables {
		if table.Name != ledger.Calls && table.Name != ledger.Files && table.Name != ledger.Snapshots {
			continue
		}
		rows, err := snap.Rows(ctx, i, within, ledger.ByLine)
		if err != nil {
			return err
		}
		for more := true; more; {
			if more, err = rows.Next(); err != nil || ctx.Err() != nil {
				return cmp.Or(err, ctx.Err())
			}
			if more && string(rows.Time) >= within.MinTime {
				f.slowRow(v.Name(), string(rows.Time), rows.Record.Line())
			}
		}
	}
	return nil
}

// slowRow adds what a row tells of, if it was slow.
func (f findings) slowRow(vm, when string, line []byte) {
	var r slowRow
	if json.Unmarshal(line, &r) != nil || r.Took <= float64(slow.Milliseconds()) {
		return
	}
	switch {
	case r.Method != "":
		f.add(when, "slow", vm, strings.TrimSpace(r.Method+" "+r.Tool), r.Error, &r.Took)
	case r.Op != "":
		f.add(when, "slow", vm, "file "+r.Op, r.Path, &r.Took)
	default:
		f.add(when, "slow", vm, "snapshot "+r.Event, r.Name, &r.Took)
	}
}
