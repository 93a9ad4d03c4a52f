package ninep

import (
	"errors"
	"testing"

	"hutch/fs"
)

// TestManyLocks takes locks until there are too many, also by giving back the
// middle of one.
func TestManyLocks(t *testing.T) {
	var k locks
	s := &session{}
	at := func(start, end uint64) lock { return lock{session: s, start: start, end: end} }
	if _, err := k.set(2, at(0, 100)); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 1
	for ; err == nil && n <= maxLocks; n++ {
		_, err = k.set(uint64(10+n%64), at(uint64(3*n), uint64(3*n+2)))
	}
	if n--; !errors.Is(err, fs.ErrNoLocks) || n != maxLocks {
		t.Errorf("after %d locks: %v", n, err)
	}
	if err := k.clear(2, at(50, 51)); !errors.Is(err, fs.ErrNoLocks) {
		t.Errorf("one lock becomes two: %v", err)
	}
	if err := k.clear(11, at(3, 5)); err != nil {
		t.Error(err)
	}
	if err := k.clear(2, at(50, 51)); err != nil {
		t.Error(err)
	}
	k.releaseAll(s)
	if k.count != 0 || len(k.byFile) != 0 {
		t.Errorf("%d locks are left", k.count)
	}
}
