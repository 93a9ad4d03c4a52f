package ninep

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// Types and answers of Tlock.
const (
	lockRead = iota
	lockWrite
	unlock
)

const (
	lockGranted = 0
	lockBlocked = 1
)

// locks has the advisory locks of all connections, by file. They bind only
// those who ask, and only clients of 9P2000.L do; a client that wants to wait
// asks again, as Linux does.
type locks struct {
	mu     sync.Mutex // guards all below
	byFile map[uint64][]lock
	count  int
}

// A lock is a range of bytes of a file, from start up to end.
type lock struct {
	session *session
	f       *fid
	pid     uint32
	client  string
	write   bool
	start   uint64
	end     uint64
}

// sameOwner says whether two locks cannot be in each other's way.
func (l lock) sameOwner(m lock) bool {
	return l.session == m.session && l.pid == m.pid && l.client == m.client
}

func (l lock) overlaps(m lock) bool { return l.start < m.end && m.start < l.end }

func (l lock) conflicts(m lock) bool {
	return l.overlaps(m) && (l.write || m.write) && !l.sameOwner(m)
}

// set takes a lock, unless another's is in the way.
func (k *locks) set(file uint64, l lock) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.byFile[file], l.conflicts) {
		return false, nil
	}
	return true, k.replace(file, append(k.without(file, l), l))
}

// clear gives a range back.
func (k *locks) clear(file uint64, l lock) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.replace(file, k.without(file, l))
}

// test returns a lock that is in the way of l.
func (k *locks) test(file uint64, l lock) (lock, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.byFile[file], l.conflicts)
	if i < 0 {
		return lock{}, false
	}
	return k.byFile[file][i], true
}

// without returns the locks of a file less the range of l of its owner; mu is
// held.
func (k *locks) without(file uint64, l lock) []lock {
	var rest []lock
	for _, m := range k.byFile[file] {
		if !m.sameOwner(l) || !m.overlaps(l) {
			rest = append(rest, m)
			continue
		}
		if m.start < l.start {
			before := m
			before.end = l.start
			rest = append(rest, before)
		}
		if l.end < m.end {
			after := m
			after.start = l.end
			rest = append(rest, after)
		}
	}
	return rest
}

// replace changes the locks of a file, unless there are too many then.
func (k *locks) replace(file uint64, with []lock) error {
	more := len(with) - len(k.byFile[file])
	if more > 0 && k.count+more > maxLocks {
		return fmt.Errorf("%w: all connections have %d locks", fs.ErrNoLocks, k.count)
	}
	k.count += more
	if len(with) == 0 {
		delete(k.byFile, file)
		return nil
	}
	if k.byFile == nil {
		k.byFile = map[uint64][]lock{}
	}
	k.byFile[file] = with
	return nil
}

// release drops what was locked through a fid that goes.
func (k *locks) release(f *fid) {
	k.drop(func(l lock) bool { return l.f == f })
}

// releaseAll drops what a session has locked.
func (k *locks) releaseAll(s *session) {
	k.drop(func(l lock) bool { return l.session == s })
}

func (k *locks) drop(which func(lock) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for file, held := range k.byFile {
		k.replace(file, slices.DeleteFunc(held, which))
	}
}

// asked returns the lock that a Tlock or Tgetlock speaks of, and its file.
func (s *session) asked(o *op) (lock, uint64, error) {
	if o.perm > unlock || o.perm == unlock && o.typ == wire.Tgetlock {
		return lock{}, 0, fmt.Errorf("%w: lock type %d", fs.ErrInvalid, o.perm)
	}
	if len(o.name) > maxLocker {
		return lock{}, 0, fmt.Errorf("%w: %d bytes to say who locks", fs.ErrInvalid, len(o.name))
	}
	q, _, err := s.qidOf(o.ctx, o.at.node)
	l := lock{
		session: s, f: o.f, pid: o.pid, client: o.name, write: o.perm == lockWrite,
		start: o.offset, end: math.MaxUint64,
	}
	if o.size > 0 && o.size < math.MaxUint64-o.offset {
		l.end = o.offset + o.size
	}
	return l, q.Path, err
}

// lock serves Tlock.
func (s *session) lock(o *op) error {
	if o.open == nil {
		return fmt.Errorf("%w: fid %d not open", errBadFd, o.fid)
	}
	l, file, err := s.asked(o)
	if err != nil {
		return err
	}
	granted := true
	if o.perm == unlock {
		err = s.srv.locks.clear(file, l)
	} else {
		granted, err = s.srv.locks.set(file, l)
	}
	if err != nil {
		return err
	}
	answer := byte(lockGranted)
	if !granted {
		answer = lockBlocked
	}
	o.out = append(o.out, answer)
	return nil
}

// getlock serves Tgetlock: the lock that is in the way, or that there is none.
func (s *session) getlock(o *op) error {
	l, file, err := s.asked(o)
	if err != nil {
		return err
	}
	typ, start, size, pid, client := byte(unlock), o.offset, o.size, o.pid, o.name
	if m, found := s.srv.locks.test(file, l); found {
		typ, start, size, pid, client = lockRead, m.start, m.end-m.start, m.pid, m.client
		if m.write {
			typ = lockWrite
		}
		if m.end == math.MaxUint64 {
			size = 0
		}
	}
	b := wire.Put64(wire.Put64(append(o.out, typ), start), size)
	o.out = wire.PutString(wire.Put32(b, pid), client)
	return nil
}
