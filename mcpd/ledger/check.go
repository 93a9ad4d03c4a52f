package ledger

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// A page of bbolt is a head with its flags and the count of its elements; in a
// branch each element ends with the number of a page.
const (
	pageHead   = 16
	branchFlag = 1
	branchSize = 16
)

// check refuses a file in which two ways lead to one page. It reads bbolt's
// pages by hand because bbolt, its own Check too, goes round in such a tree for
// ever, and nothing stops it before it has taken all memory.
func (db *DB) check(tx *bolt.Tx) error {
	page := make([]byte, db.bolt.Info().PageSize)
	seen := make([]bool, tx.Size()/int64(len(page))) // by page
	if err := db.checkTree(tx.Cursor().Bucket(), page, seen); err != nil {
		return err
	}
	return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return db.checkTree(b, page, seen) })
}

// checkTree looks at b's pages.
func (db *DB) checkTree(b *bolt.Bucket, page []byte, seen []bool) error {
	todo := []uint64{uint64(b.Root())}
	if todo[0] == 0 {
		return nil // it is within its parent's page
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id >= uint64(len(seen)) || seen[id] {
			return fmt.Errorf("%w: a way to page %d that cannot be", ErrCorrupt, id)
		}
		seen[id] = true
		at := int64(id) * int64(len(page))
		if _, err := db.file.ReadAt(page[:pageHead], at); err != nil {
			return err
		}
		if binary.NativeEndian.Uint16(page[8:])&branchFlag == 0 {
			continue
		}
		if _, err := db.file.ReadAt(page, at); err != nil {
			return err
		}
		count := int(binary.NativeEndian.Uint16(page[10:]))
		for at := pageHead; count > 0 && at < len(page); at, count = at+branchSize, count-1 {
			todo = append(todo, binary.NativeEndian.Uint64(page[at+8:]))
		}
	}
	return nil
}
