// Package disk measures how much space the folders that a guest writes to take.
package disk

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// least is what a file counts at least, in bytes: it takes an inode and a
// name. So a limit is one of the number of files too, and of the time that
// measuring takes.
const least = 1 << 10

// Used returns the bytes that the files in dirs take on the disk, each counted
// as 1 KiB at least, and files with several names once. It stops to count when
// there are more than enough, or ctx ends. What cannot be read, and what goes
// meanwhile, is left out. No symbolic link leads out of a folder, also when a
// guest changes it at the same time.
func Used(ctx context.Context, enough int64, dirs ...string) (int64, error) {
	var sum int64
	for _, dir := range dirs {
		n, err := used(ctx, enough-sum, dir)
		if sum += n; err != nil {
			return sum, err
		}
		if sum > enough {
			break
		}
	}
	return sum, nil
}

// A walk sums up what is below a folder. It has two folders open, the top one
// and the one that it is in, however deep that lies: from there it goes down by
// name, and up by "..". A guest may move folders meanwhile, so that what it
// finds above is looked at only if that is the folder it came from.
type walk struct {
	enough int64
	sum    int64
	linked map[inode]bool // files with several names that are counted
	top    int
	in     int
	way    []level // from the top to the folder that it is in
	names  int     // bytes of all that the levels know
	again  int     // levels that it went down a second time
	lot    [2 << 10]byte
}

// A level is a folder on the way. Of its names the walk knows a lot at a time:
// there may be millions.
type level struct {
	name  string
	is    inode
	below []string // folders in it that are still to be looked at
	at    int64    // where the next lot begins
}

// An inode tells files apart.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }

// maxDepth is how deep folders may lie in each other. What lies deeper is more
// than enough.
const maxDepth = 20000

// What a guest cannot have the walk use either: memory for names, and time for
// going back to folders that are moved meanwhile. More is more than enough.
const (
	maxNames = 4 << 20
	maxAgain = 5 * maxDepth
	perName  = 64 // what a name takes, beside its text
)

const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC

func used(ctx context.Context, enough int64, dir string) (int64, error) {
	w, err := newWalk(enough, dir)
	if err != nil {
		return 0, err
	}
	defer w.close()
	for w.more() && ctx.Err() == nil {
		w.step()
	}
	return w.sum, ctx.Err()
}

func newWalk(enough int64, dir string) (*walk, error) {
	w := &walk{enough: enough, linked: make(map[inode]bool), in: -1}
	var err error
	if w.top, err = unix.Open(dir, openFlags, 0); err == nil {
		w.way = make([]level, 1)
		w.way[0].name = "."
		w.in, w.way[0].is, err = open(w.top, ".")
	}
	if err != nil {
		w.close()
		return nil, &os.PathError{Op: "measure", Path: dir, Err: err}
	}
	return w, nil
}

func (w *walk) close() {
	unix.Close(w.top)
	unix.Close(w.in)
}

func (w *walk) more() bool { return len(w.way) > 0 && w.sum <= w.enough }

// step goes on a little.
func (w *walk) step() {
	l := &w.way[len(w.way)-1]
	if last := len(l.below) - 1; last >= 0 {
		name := l.below[last]
		l.below = l.below[:last]
		if !w.down(l, name) {
			w.names -= perName + len(name)
		}
	} else if !w.read(l) {
		w.up()
	}
}

// read counts the next lot of what is in the folder, if there is one.
func (w *walk) read(l *level) bool {
	unix.Seek(w.in, l.at, io.SeekStart)
	n, err := unix.ReadDirent(w.in, w.lot[:])
	if err != nil || n <= 0 {
		return false
	}
	l.at, err = unix.Seek(w.in, 0, io.SeekCurrent)
	_, _, names := unix.ParseDirent(w.lot[:n], -1, nil)
	for _, name := range names {
		if w.count(l, name); w.sum > w.enough {
			break
		}
	}
	return err == nil
}

func (w *walk) count(l *level, name string) {
	var st unix.Stat_t
	if unix.Fstatat(w.in, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	switch is := inodeOf(&st); {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		l.below = append(l.below, name)
		w.names += perName + len(name)
	case st.Nlink > 1:
		if w.linked[is] {
			return
		}
		w.linked[is] = true
	}
	w.sum += max(int64(st.Blocks)*512, least)
}

// down goes into a folder, if ".." leads back.
func (w *walk) down(l *level, name string) bool {
	fd, is, err := open(w.in, name)
	if err != nil {
		return false
	}
	if up, err := stat(fd, ".."); err != nil || up != l.is {
		unix.Close(fd)
		return false
	}
	unix.Close(w.in)
	w.in = fd
	if w.way = append(w.way, level{name: name, is: is}); len(w.way) > maxDepth || w.names > maxNames {
		w.sum = w.enough + 1
	}
	return true
}

// cut forgets the way from the nth level on.
func (w *walk) cut(n int) {
	for _, l := range w.way[n:] {
		for _, name := range append(l.below, l.name) {
			w.names -= perName + len(name)
		}
	}
	w.way = w.way[:n]
}

// up returns from a folder to the one above, by its name if it was moved.
func (w *walk) up() {
	w.cut(len(w.way) - 1)
	if n := len(w.way); n > 0 && !w.enter(w.in, "..", w.way[n-1].is) {
		w.back()
	}
}

// back goes the way anew, from the top as far as it still leads.
func (w *walk) back() {
	if w.again += len(w.way); w.again > maxAgain {
		w.sum = w.enough + 1
		return
	}
	from := w.top
	for i, l := range w.way {
		if !w.enter(from, l.name, l.is) {
			w.cut(i)
			return
		}
		from = w.in
	}
}

// enter has the walk be in the folder that dir has under a name, if that is the
// one it should be.
func (w *walk) enter(dir int, name string, should inode) bool {
	fd, is, err := open(dir, name)
	if err != nil {
		return false
	}
	if is != should {
		unix.Close(fd)
		return false
	}
	unix.Close(w.in)
	w.in = fd
	return true
}

func open(dir int, name string) (fd int, is inode, err error) {
	if fd, err = unix.Openat(dir, name, openFlags|unix.O_NOFOLLOW, 0); err != nil {
		return -1, is, err
	}
	if is, err = stat(fd, "."); err != nil {
		unix.Close(fd)
		return -1, is, err
	}
	return fd, is, nil
}

func stat(dir int, name string) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return inodeOf(&st), err
}

// Filled returns the bytes that are used of the file system of dir. It tells
// whether a new measurement may give another result.
func Filled(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}
