package ledger

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// What is read of bbolt's pages: the flags and the count of the head, and the
// page that an element of a branch leads to.
const (
	pageHead   = 16
	branchFlag = 1
	branchSize = 16
)

// check refuses a file in which two ways lead to one page: bbolt would go round
// in such a tree for ever, and take all memory for it.
func (db *DB) check(tx *bolt.Tx) error {
	seen := make([]bool, tx.Size()/int64(db.bolt.Info().PageSize)) // by page
	if err := db.checkTree(tx, uint64(tx.Cursor().Bucket().Root()), seen); err != nil {
		return err
	}
	return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
		return db.checkTree(tx, uint64(b.Root()), seen)
	})
}

// checkTree looks at the pages below root, 0 for a bucket without pages of its own.
func (db *DB) checkTree(tx *bolt.Tx, root uint64, seen []bool) error {
	if root == 0 {
		return nil
	}
	size := int64(db.bolt.Info().PageSize)
	page := make([]byte, size)
	for todo := []uint64{root}; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id >= uint64(len(seen)) || seen[id] {
			return fmt.Errorf("%w: a way to page %d that cannot be", ErrCorrupt, id)
		}
		seen[id] = true
		head := page[:pageHead]
		if _, err := db.file.ReadAt(head, int64(id)*size); err != nil {
			return err
		}
		if binary.NativeEndian.Uint16(head[8:])&branchFlag == 0 {
			continue
		}
		if _, err := db.file.ReadAt(page, int64(id)*size); err != nil {
			return err
		}
		for at := pageHead; at < pageHead+branchSize*int(binary.NativeEndian.Uint16(page[10:])) && at+branchSize <= len(page); at += branchSize {
			todo = append(todo, binary.NativeEndian.Uint64(page[at+8:]))
		}
	}
	return nil
}
