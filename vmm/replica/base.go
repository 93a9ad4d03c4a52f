package replica

import (
	"bufio"
	"encoding/gob"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Where files cannot share blocks, replicas of one folder can share files: a
// file that is what it was when an earlier replica was made becomes another
// name of the copy that is there. That is for replicas which nobody writes to.

// A record remembers what was in a folder that a replica was made of, by path.
type record map[string]noted

// A noted is what was at a path.
type noted struct {
	Stamp stamp
	Sure  bool // what has the same stamp is the same
}

// seenSuffix is what the name of a replica's record has more than its own.
const seenSuffix = ".seen"

// Since has files shared with the replica in dir, which was made of the same
// folder, if that has a record. It is called before the first pass.
func (r *Replica) Since(dir string) {
	if then, err := readRecord(dir); err == nil {
		r.base, r.then = dir, then
	}
}

func readRecord(dir string) (then record, err error) {
	f, err := os.Open(dir + seenSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return then, gob.NewDecoder(bufio.NewReader(f)).Decode(&then)
}

// Remember writes the record that the next replica needs beside the replica,
// and Unchanged and Restore do. It is called when the replica is complete.
func (r *Replica) Remember() error {
	f, err := os.OpenFile(r.to+seenSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	rec, w := make(record), bufio.NewWriter(f)
	r.known.record("", rec)
	return errors.Join(gob.NewEncoder(w).Encode(rec), w.Flush(), f.Close())
}

func (e *entry) record(path string, rec record) {
	if len(path) > pathMax { // such files are copied each time
		return
	}
	for name, kid := range e.kids {
		kid.record(filepath.Join(path, name), rec)
	}
	rec[path] = noted{e.stamp, e.sure && e.clean}
}

// link makes the entry called name a name of the earlier replica's copy,
// and returns nil if that has not the same file, or it cannot be done.
func (r *Replica) link(from, to *folder, name string, st *unix.Stat_t) *entry {
	if len(r.then) == 0 {
		return nil
	}
	path, s := from.name(name), stampOf(st)
	if was := r.then[path]; s.kind() != unix.S_IFREG || s.Nlink != 1 || s.Size == 0 || !was.Sure || was.Stamp != s {
		return nil
	}
	if unix.Linkat(unix.AT_FDCWD, filepath.Join(r.base, path), to.fd(), name, 0) != nil {
		return nil
	}
	return &entry{stamp: s, sure: true, clean: true, linked: s.Size}
}
