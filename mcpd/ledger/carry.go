package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"hutch/aggd/wire"
	"hutch/fs"
)

// Carry calls take with each table that has records, as a text of so many bytes,
// a JSON line a record. All that was written before it is in it, and nothing that
// is written later. What is read is a copy: it holds nothing up, however slowly it
// is read.
func (db *DB) Carry(ctx context.Context, take func(name string, size int64, r io.Reader) error) error {
	if err := db.Settle(ctx); err != nil {
		return err
	}
	ends := make([]int64, len(tables))
	for i, t := range tables {
		ends[i] = db.Log(t.name).Size()
	}
	for i, t := range tables {
		if err := db.carry(ctx, t.name, ends[i], take); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) carry(ctx context.Context, name string, end int64, take func(string, int64, io.Reader) error) error {
	f, err := os.CreateTemp(filepath.Dir(db.path), ".new-carry-") // a leftover, should we be killed here
	if err != nil {
		return err
	}
	defer f.Close()
	os.Remove(f.Name())
	r, p, size, wrote := db.Log(name).Reader(), make([]byte, maxCarried), int64(0), int64(0)
	for r.at(size) < end {
		n, err := r.ReadAt(ctx, p[:min(int64(len(p)), end-r.at(size))], size, false)
		if err != nil {
			return err
		}
		if n = bytes.LastIndexByte(p[:n], '\n') + 1; n == 0 { // whole lines, for the next may be dropped meanwhile
			return fmt.Errorf("%w: table %s: no line at offset %d", ErrCorrupt, name, r.at(size))
		}
		for line := range bytes.Lines(p[:n]) {
			if isBeginning(line) {
				continue
			}
			if _, err := f.WriteAt(line, wrote); err != nil {
				return err
			}
			wrote += int64(len(line))
		}
		size += int64(n)
	}
	if wrote == 0 {
		return nil
	}
	return take(name, wrote, io.NewSectionReader(f, 0, wrote))
}

// maxCarried is the length of the longest line that Receive takes: every column at
// its limit, each byte of it escaped.
const maxCarried = 1 << 20

// carriedBytes and carriedLines are what one transaction of Receive takes.
const (
	carriedBytes = 4 << 20
	carriedLines = 4 << 10
)

// Receive puts the records that r has, as Carry had them, into the table called
// name, which is empty, with the numbers that they have. It trusts nothing in
// them: each line is made anew. It is called before anything else is written.
func (db *DB) Receive(ctx context.Context, name string, r io.Reader) error {
	i := tableIndex(name)
	if i < 0 || db.logs[i].Size() > 0 {
		return fmt.Errorf("%w: no table %.40q to be filled", fs.ErrInvalid, name)
	}
	lines := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; {
		add, err := db.received(ctx, i, lines, &n)
		if err != nil {
			return fmt.Errorf("table %s, line %d: %w", name, n, err)
		}
		if len(add.lines) == 0 {
			return nil
		}
		if err := guard(func() error { return db.bolt.Update(func(tx *bolt.Tx) error { return db.fill(tx, i, add) }) }); err != nil {
			return storeError(err)
		}
		db.lastID[i] = add.id
		db.logs[i].extend(add.lines)
	}
}

// received reads the lines of one transaction. n is the number of the next.
func (db *DB) received(ctx context.Context, i int, r *bufio.Reader, n *int) (addition, error) {
	add := addition{id: db.lastID[i]}
	for size := 0; size < carriedBytes && len(add.lines) < carriedLines; *n++ {
		if ctx.Err() != nil {
			return add, context.Cause(ctx)
		}
		text, err := readLine(r)
		if err == io.EOF {
			return add, nil
		}
		if err != nil {
			return add, err
		}
		if len(text) == 0 { // where a reader was too slow, as Reader has it
			continue
		}
		id, line, err := db.remake(&tables[i], text)
		if err == nil && i != calls && id <= add.id {
			err = fmt.Errorf("%w: id %d behind %d", fs.ErrInvalid, id, add.id)
		}
		if err != nil {
			return add, err
		}
		add.id = max(add.id, id)
		add.lines = append(add.lines, line)
		size += len(line)
	}
	return add, nil
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	b := wire.NewBounded(maxCarried)
	end := wire.ReadLine(r, b)
	line, err := b.Bytes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	case end == io.EOF && len(line) > 0:
		return nil, fmt.Errorf("%w: it has no end", fs.ErrInvalid)
	}
	return line, end
}

// remake returns a record's line as encode would have made it, and its number.
func (db *DB) remake(t *table, text []byte) (uint64, []byte, error) {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil || d.More() {
		return 0, nil, fmt.Errorf("%w: no JSON object", fs.ErrInvalid)
	}
	number, _ := fields["id"].(json.Number)
	id, err := number.Int64()
	if err != nil || id <= 0 || id > math.MaxInt64/2 {
		return 0, nil, fmt.Errorf("%w: id %.40q", fs.ErrInvalid, number)
	}
	when, _ := fields["timestamp"].(string)
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: timestamp %.40q", fs.ErrInvalid, when)
	}
	delete(fields, "id")
	row := Row{"timestamp": at}
	delete(fields, "timestamp")
	for key, v := range fields {
		if row[key], err = t.carried(key, v); err != nil {
			return 0, nil, err
		}
	}
	line, err := t.encode(db.red, row)
	if err != nil {
		return 0, nil, err
	}
	return uint64(id), slices.Concat(appendHead(nil, uint64(id)), line), nil
}

// carried returns the value of a column as encode takes it.
func (t *table) carried(key string, v any) (any, error) {
	i := t.index(key)
	if i < 0 {
		return nil, fmt.Errorf("%w: column %.40q", fs.ErrInvalid, key)
	}
	isText := t.columns[i].kind == word || t.columns[i].kind == text
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if isText {
			return v, nil
		}
	case json.Number:
		if isText {
			break
		}
		_, ierr := v.Int64()
		_, ferr := v.Float64()
		if ierr == nil || ferr == nil && t.columns[i].kind == real && len(v) < 40 {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: column %s is a %T", fs.ErrInvalid, key, v)
}

// fill adds lines to a table, and keeps the numbers of calls that come from those
// that there are.
func (db *DB) fill(tx *bolt.Tx, i int, add addition) error {
	b, err := tx.CreateBucketIfNotExists([]byte(tables[i].name))
	if err != nil {
		return err
	}
	b.FillPercent = 0.95
	at := db.logs[i].Size()
	for _, line := range add.lines {
		if err := b.Put(key(uint64(at)), line); err != nil {
			return err
		}
		at += int64(len(line))
	}
	if err := b.SetSequence(add.id); err != nil || i != calls {
		return err
	}
	waiting, err := tx.CreateBucketIfNotExists([]byte(pendingBucket))
	if err != nil {
		return err
	}
	db.nextCall.Store(max(db.nextCall.Load(), add.id))
	return waiting.SetSequence(db.nextCall.Load())
}
