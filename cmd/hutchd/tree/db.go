package tree

import (
	"context"

	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/query"
	"hutch/mcpd/query/sqltext"
)

// dbRows are the files of a VM's ledger: to ask it, and each table as it stands.
func dbRows() []row {
	rows := []row{
		{Name: "schema", Perm: 0o444, Read: vmSchema, Doc: "the tables, as statements of SQL"},
		{Name: "query", Perm: 0o600, Open: openVMQuery, Doc: "write a SELECT, read its rows, a JSON line each, on one open file"},
	}
	for _, t := range ledger.Tables {
		rows = append(rows, row{Name: t.Name + ".jsonl", Perm: 0o400, Open: ledgerLog(t.Name, false), Size: ledgerSize(t.Name), Doc: "the table, a JSON line a record"})
	}
	return rows
}

func vmSchema(call) (string, error)   { return query.Schema(false), nil }
func rootSchema(call) (string, error) { return query.Schema(true), nil }

func openVMQuery(c call, flags int) (fs.Handle, error) {
	g := c.At.gw
	return c.At.s.openQuery(flags, query.Sources{Key: g.Whose(), List: func() []query.Source { return []query.Source{source(g)} }})
}

func openRootQuery(c call, flags int) (fs.Handle, error) {
	return c.At.s.openQuery(flags, query.Sources{All: true, List: func() (all []query.Source) {
		for _, v := range c.At.s.List() {
			all = append(all, source(v.Gateway))
		}
		for _, g := range c.At.s.workloads.Gateways() {
			all = append(all, source(g))
		}
		return all
	}})
}

func source(g *gateway.Gateway) query.Source {
	return query.Source{VM: g.Whose(), Ledger: g.HoldLedger}
}

// A selection is what SQL selects that is written on a file: its rows are read. The
// statement ends with a semicolon at the end of a line, or where it is read; the
// next one ends it.
type selection struct {
	engine *query.Engine
	from   query.Sources
	text   sqltext.Text // of a statement that is not whole
	rows   *query.Statement
	inOrder
}

func (s *Server) openQuery(flags int, from query.Sources) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	return openAsked(&selection{engine: &s.queries, from: from}, query.MaxSQL), nil
}

func (q *selection) say(ctx context.Context, line string) error {
	if !q.text.Add(line) {
		return nil
	}
	return q.begin(ctx)
}

// begin begins the statement that was written, if there is one, in the place of
// the one before.
func (q *selection) begin(ctx context.Context) (err error) {
	text := q.text.Take()
	if text == "" {
		return nil
	}
	q.end()
	q.inOrder = inOrder{}
	q.rows, err = q.engine.Start(ctx, q.from, text)
	return err
}

func (q *selection) read(ctx context.Context, p []byte, off int64) (int, error) {
	if err := q.begin(ctx); err != nil || q.rows == nil {
		return 0, err
	}
	return q.inOrder.read(p, off, func(p []byte) (int, error) { return q.rows.Read(ctx, p) })
}

func (q *selection) end() {
	if q.rows != nil {
		q.rows.Close()
		q.rows = nil
	}
}
