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
	Dev, Ino     uint64
	Mode         uint32
	UID, GID     uint32
	Nlink        uint64
	Size         int64
	Mtime, Ctime int64 // in nanoseconds
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{
		Dev: uint64(st.Dev), Ino: uint64(st.Ino), Mode: uint32(st.Mode), UID: st.Uid, GID: st.Gid, Nlink: uint64(st.Nlink), Size: int64(st.Size),
		Mtime: unix.TimespecToNsec(st.Mtim), Ctime: unix.TimespecToNsec(st.Ctim),
	}
}

func (s stamp) inode() inode { return inode{s.Dev, s.Ino} }
func (s stamp) kind() uint32 { return s.Mode & unix.S_IFMT }

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
	if s.Ctime%whole == 0 && s.Mtime%whole == 0 {
		grain = tock
	}
	return s.Ctime < now.Add(-grain).UnixNano()
}
