package replica

import (
	"encoding/gob"
	"io"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Where files cannot share blocks, replicas of one folder can share files: a
// file that is what it was when an earlier replica was made becomes another
// name of the copy that is there. That is for replicas which nobody writes to.

// A Record remembers the files of a folder that a replica was made of, by
// path: those of which a replica can tell later whether they are the same.
type Record map[string]Seen

// Seen is what a file was.
type Seen struct {
	Dev, Ino     uint64
	Mode         uint32
	Size         int64
	Mtime, Ctime int64 // in nanoseconds
}

func seen(s stamp) Seen { return Seen{s.dev, s.ino, s.mode, s.size, s.mtime, s.ctime} }

// Since has files shared with the replica in dir, which was made of the same
// folder. It is called before the first pass.
func (r *Replica) Since(dir string, then Record) { r.base, r.then = dir, then }

// Record returns what the next replica needs; nil where blocks are shared.
// It is called after Copy.
func (r *Replica) Record() Record {
	if !r.alone && r.base == "" {
		return nil
	}
	rec := make(Record)
	r.known.record("", rec)
	return rec
}

func (e *entry) record(path string, rec Record) {
	if len(path) > pathMax { // such files are copied each time
		return
	}
	for name, kid := range e.kids {
		kid.record(filepath.Join(path, name), rec)
	}
	if e.stamp.kind() == unix.S_IFREG && e.stamp.nlink == 1 && e.sure && e.clean && e.stamp.size > 0 {
		rec[path] = seen(e.stamp)
	}
}

// link makes the entry called name a name of the earlier replica's copy,
// and returns nil if that has not the same file, or it cannot be done.
func (r *Replica) link(from, to *folder, name string, st *unix.Stat_t) *entry {
	if len(r.then) == 0 {
		return nil
	}
	path, s := from.name(name), stampOf(st)
	was, ok := r.then[path]
	if !ok || was != seen(s) || s.nlink != 1 {
		return nil
	}
	if unix.Linkat(unix.AT_FDCWD, filepath.Join(r.base, path), to.fd(), name, 0) != nil {
		return nil
	}
	return &entry{stamp: s, sure: true, clean: true, linked: s.size}
}

// ReadRecord reads what Write wrote.
func ReadRecord(f io.Reader) (Record, error) {
	var r Record
	err := gob.NewDecoder(f).Decode(&r)
	return r, err
}

// Write writes the record.
func (r Record) Write(f io.Writer) error { return gob.NewEncoder(f).Encode(r) }
