package ledger

import (
	"context"
	"errors"
	"io"

	"hutch/aggd/wire"
)

// maxRecord is more than any record takes.
const maxRecord = 1 << 20

// Lines calls do with each row of a table, a line of JSON without its end,
// until do returns an error. Records that are written meanwhile are not among
// them. The line is do's to keep.
func (db *DB) Lines(ctx context.Context, table string, do func(line []byte) error) error {
	if err := db.Settle(ctx); err != nil {
		return err
	}
	log := db.Log(table)
	begin, end := log.Span()
	lines := wire.NewReader(&upTo{ctx: ctx, r: log.Reader(), left: end - begin}, maxRecord)
	for {
		line, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && !isBeginning(line) {
			err = do(line)
		}
		if err != nil {
			return err
		}
	}
}

// An upTo reads what of a table there was at one moment.
type upTo struct {
	ctx       context.Context
	r         *Reader
	off, left int64
}

func (u *upTo) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), u.left)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	n, err := u.r.ReadAt(u.ctx, p, u.off, false)
	u.off, u.left = u.off+int64(n), u.left-int64(n)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}
