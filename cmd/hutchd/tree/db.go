package tree

import (
	"context"
	"fmt"
	"os"

	"hutch/cmd/hutchd/sandbox"
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
		rows = append(rows, row{Name: t.Name + ".jsonl", Perm: 0o444, Open: ledgerLog(t.Name, false), Size: ledgerSize(t.Name), Doc: "the table, a JSON line a record"})
	}
	return rows
}

func vmSchema(call) (string, error)   { return query.Schema(false), nil }
func rootSchema(call) (string, error) { return query.Schema(true), nil }

func openVMQuery(c call, flags int) (fs.Handle, error) {
	v := c.At.vm
	return c.At.s.openQuery(flags, query.Sources{Key: v.Name(), List: func() []query.Source { return []query.Source{source(v)} }})
}

func openRootQuery(c call, flags int) (fs.Handle, error) {
	return c.At.s.openQuery(flags, query.Sources{All: true, List: func() (all []query.Source) {
		for _, v := range c.At.s.List() {
			all = append(all, source(v))
		}
		return all
	}})
}

func source(v *sandbox.Sandbox) query.Source { return query.Source{VM: v.Name(), Ledger: v.Ledger} }

// queryHandle is an open file on which SQL is written and its rows read. The
// statement ends with a semicolon at the end of a line, or where it is read; the
// next one ends it.
type queryHandle struct {
	fs.MadeUp
	engine *query.Engine
	from   query.Sources
	line   *fs.Writer
	open   context.Context // done when the file is closed
	closes context.CancelFunc

	turn turn         // guards what follows
	text sqltext.Text // of a statement that is not whole
	rows *query.Statement
	inOrder
}

func (s *Server) openQuery(flags int, from query.Sources) (fs.Handle, error) {
	if flags&os.O_RDWR == 0 {
		return nil, fmt.Errorf("%w: open it for reading and writing: write a statement, read its rows", fs.ErrPermission)
	}
	h := &queryHandle{engine: &s.queries, from: from, turn: newTurn()}
	h.open, h.closes = context.WithCancel(context.Background())
	h.line = fs.NewLongWriter(h.add, query.MaxSQL)
	return h, nil
}

// use does f when it is its turn.
func (h *queryHandle) use(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.open, cancel)()
	if err := h.turn.take(ctx); err != nil {
		return err
	}
	defer h.turn.give()
	return f(ctx)
}

func (h *queryHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.line.Write(ctx, p)
}

// add adds a line to the statement, and begins it if that ends it.
func (h *queryHandle) add(ctx context.Context, line string) error {
	return h.use(ctx, func(context.Context) error {
		if !h.text.Add(line) {
			return nil
		}
		return h.begin()
	})
}

// begin begins the statement that was written, if there is one, in the place of
// the one before.
func (h *queryHandle) begin() (err error) {
	text := h.text.Take()
	if text == "" {
		return nil
	}
	h.end()
	h.inOrder = inOrder{}
	h.rows, err = h.engine.Start(h.from, text)
	return err
}

func (h *queryHandle) end() {
	if h.rows != nil {
		h.rows.Close()
		h.rows = nil
	}
}

func (h *queryHandle) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if err := h.line.Complete(ctx); err != nil {
		return 0, err
	}
	err = h.use(ctx, func(ctx context.Context) error {
		if err := h.begin(); err != nil || h.rows == nil {
			return err
		}
		n, err = h.read(p, off, func(p []byte) (int, error) { return h.rows.Read(ctx, p) })
		return err
	})
	return n, err
}

// Close ends the statement.
func (h *queryHandle) Close() error {
	h.closes()
	h.turn <- struct{}{}
	h.end()
	return nil
}
