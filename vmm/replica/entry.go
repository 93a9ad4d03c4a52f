package replica

import (
	"time"

	"golang.org/x/sys/unix"
)

// An entry is what a pass has seen at a name.
type entry struct {
	stamp   stamp
	sure    bool // a change that comes later shows in the stamp
	skipped bool // is not in the replica, and cannot be
	clean   bool // a store through a mapping shows too: no page of it was dirty
	shared  int64
	linked  int64
	copied  int64
	kids    map[string]*entry // of a folder
}

// An inode tells files apart.
type inode struct{ dev, ino uint64 }

// A stamp changes whenever a file does.
type stamp struct {
	inode
	mode  uint32
	nlink uint64
	size  int64
	mtime int64 // in nanoseconds
	ctime int64
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{
		inode: inode{uint64(st.Dev), uint64(st.Ino)}, mode: uint32(st.Mode), nlink: uint64(st.Nlink), size: int64(st.Size),
		mtime: unix.TimespecToNsec(st.Mtim), ctime: unix.TimespecToNsec(st.Ctim),
	}
}

func (s stamp) kind() uint32 { return s.mode & unix.S_IFMT }

// A file's times are those of a clock that ticks slowly. What is written
// within the tick that the stamp is of does not change it.
const (
	tick  = 20 * time.Millisecond
	tock  = 2 * time.Second // where times have no more than seconds
	whole = int64(time.Second)
)

// sure says whether whatever is written from now on changes the stamp.
func (s stamp) sure(now time.Time) bool {
	grain := tick
	if s.ctime%whole == 0 && s.mtime%whole == 0 {
		grain = tock
	}
	return s.ctime < now.Add(-grain).UnixNano()
}
