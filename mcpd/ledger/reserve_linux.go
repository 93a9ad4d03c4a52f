package ledger

import (
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// reserve is how much room on the disk the file has ahead of what it holds,
// so that calls are still decided and recorded when others filled the disk.
const reserve = 1 << 20

// keepRoom sees to it that the disk has room for the file to grow by
// reserve. It is had a little ahead, and asked for again from time to time
// where there is none. The committer calls it, and Open.
func (db *DB) keepRoom() {
	if db.broken != nil {
		return
	}
	var size int64
	db.bolt.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	if size+reserve <= db.kept || time.Since(db.asked) < retryAfter {
		return
	}
	if err := unix.Fallocate(int(db.file.Fd()), 0, size, reserve+growth/2); err != nil {
		db.asked = time.Now()
		return
	}
	db.kept = size + reserve + growth/2
}
