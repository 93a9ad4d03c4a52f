package fuse

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"

	"hutch/fs/inotify"
)

// A watch has the host's kernel tell what changes in directories of host
// folders, by inotify(7), so that FUSE's side of the kernel may keep names and
// attributes there: it is told of each change when the watch is, and the owner
// of the tree waits for that before it passes on what the other side says
// (Settle). Only what a look finds in the very moment of a change, without a
// word from the other side, can be as old as the news are. So nothing is kept
// that changed lately.
//
// Without a watch nothing is kept, as where there are too many directories, or
// where the other side changes so much that to be told costs more than to look.
type watch struct {
	mu     sync.Mutex // guards what follows, and the watched of every directory
	f      *os.File   // of inotify; nil until the first directory, and in the end
	fd     int        // its descriptor
	closed bool
	dirs   map[int32]*hostNode // by watch descriptor
	busy   bool                // there may be news that were read and not passed on
	told   chan struct{}       // closed when all are passed on
	blind  time.Time           // names of directories may be as old until then
	ended  chan struct{}       // closed when the watch has
}

// A watched is what a watch has of a directory.
type watched struct {
	wd   int32                  // 0: it is not watched
	seen int                    // news so far
	kept map[string]*gofs.Inode // what the kernel keeps, by name; "": the directory itself
}

// many is how many news of a folder in a second are too many. Nothing of that
// folder is kept then for as long as opaque.
const many = 1000

var opaque = 2 * time.Second

const (
	ofNames = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	ofAll   = ofNames | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE | unix.IN_EXCL_UNLINK | unix.IN_ONLYDIR
)

// maxWatched is how many directories are watched: a quarter of those that all
// processes of a user may watch.
var maxWatched = sync.OnceValue(func() int {
	text, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return min(n/4, 1<<16)
})

// over has the directory n watched, of which fd is a descriptor, and returns
// what keeps takes after a look into it.
func (w *watch) over(n *hostNode, fd int) (seen int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return 0, false
	case n.watched.wd != 0:
		return n.watched.seen, true
	case n.f.s.opt.Keep > 0 || len(w.dirs) >= maxWatched() || time.Now().Before(n.f.opaque):
		return 0, false
	case w.f == nil && !w.start():
		return 0, false
	}
	wd, err := unix.InotifyAddWatch(w.fd, procPath(fd), ofAll)
	if err != nil || w.dirs[int32(wd)] != nil { // the same directory is served twice
		return 0, false
	}
	w.dirs[int32(wd)] = n
	n.watched.wd, n.watched.kept = int32(wd), map[string]*gofs.Inode{}
	return n.watched.seen, true
}

// keeps notes that the kernel keeps in, which was found in the directory n under
// a name, unless there are news of it since over returned seen, or are on their way:
// another file is kept by that name, and is to be told of yet.
func (w *watch) keeps(n *hostNode, seen int, name string, in *gofs.Inode) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := n.watched.kept[name]
	if n.watched.wd == 0 || n.watched.seen != seen || had != nil && had.StableAttr() != in.StableAttr() {
		return false
	}
	n.watched.kept[name] = in
	return true
}

// start begins to watch; mu is held. It is not tried again.
func (w *watch) start() bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		w.closed = true
		return false
	}
	w.f, w.fd = os.NewFile(uintptr(fd), "inotify"), fd
	w.dirs = map[int32]*hostNode{}
	w.told, w.ended = make(chan struct{}), make(chan struct{})
	go w.run(w.f)
	return true
}

// run passes on what happens until the watch is closed.
func (w *watch) run(f *os.File) {
	defer close(w.ended)
	buf := make([]byte, 16<<10)
	sc, err := f.SyscallConn()
	for err == nil {
		err = sc.Read(func(fd uintptr) bool { return w.read(int(fd), buf) })
	}
}

// read passes on all that there is, and reports whether there was any. It
// waits for requests that are under way for the folders.
func (w *watch) read(fd int, buf []byte) (any bool) {
	w.mu.Lock()
	w.busy = true
	w.mu.Unlock()
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		any = true
		for e := range inotify.Events(buf[:n]) {
			w.tell(e)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if readable(fd) { // whoever waits since may wait for this
		return true
	}
	w.busy = false
	close(w.told)
	w.told = make(chan struct{})
	return any
}

// readable reports whether a descriptor has something to read.
func readable(fd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// Settle returns when the kernel was told of all that changed in host folders
// before it was called, or false after a second. What answers a request for
// such a folder must not call it.
func (s *Server) Settle() bool {
	if told := s.watch.untold(); told != nil {
		late := time.NewTimer(time.Second)
		defer late.Stop()
		select {
		case <-told:
		case <-late.C:
			return false
		}
	}
	time.Sleep(s.watch.blinded())
	return true
}

// untold returns what is closed when all news are passed on, or nil if there
// are none.
func (w *watch) untold() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil || !w.busy && !readable(w.fd) {
		return nil
	}
	return w.told
}

// blinded returns for how long names of directories may still be old.
func (w *watch) blinded() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.blind)
}

// tell passes on one change.
func (w *watch) tell(e inotify.Event) {
	linked := e.Mask&(unix.IN_CREATE|unix.IN_ISDIR) == unix.IN_CREATE && w.linked(e.Watch, e.Name)
	w.mu.Lock()
	n := w.dirs[e.Watch]
	var old []kept
	switch {
	case e.Mask&unix.IN_Q_OVERFLOW != 0:
		old = w.lose(nil)
	case n == nil:
	case e.Mask&unix.IN_IGNORED != 0: // the directory went
		w.let(n)
	case linked || n.f.storms():
		old = w.lose(n.f)
	default:
		old = n.changes(e.Name, e.Mask&ofNames != 0)
	}
	w.mu.Unlock()
	for _, k := range old {
		k.drop()
	}
}

// linked reports whether a file that came to have a name in a directory has
// others, too: of these there are no news, and what is kept by them is not known.
func (w *watch) linked(wd int32, name string) bool {
	w.mu.Lock()
	n := w.dirs[wd]
	w.mu.Unlock()
	if n == nil {
		return false
	}
	fd, err := n.find()
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Nlink > 1
}

// storms counts news of the folder, and reports whether they are too many.
func (f *hostFolder) storms() bool {
	now := time.Now()
	if now.Sub(f.since) > time.Second {
		f.since, f.news = now, 0
	}
	f.news++
	return f.news > many
}

// lose has nothing kept of a folder, or of all, for a while; mu is held. The
// kernel counts keepDirs from when it takes an answer, in its ticks, and one
// may be under way: names of directories are given twice the time to be gone.
func (w *watch) lose(f *hostFolder) (old []kept) {
	w.blind = time.Now().Add(2 * keepDirs)
	for _, n := range w.dirs {
		if f != nil && n.f != f {
			continue
		}
		n.f.opaque = time.Now().Add(opaque)
		for name, in := range n.watched.kept {
			old = append(old, kept{n, name, in, false})
		}
		unix.InotifyRmWatch(w.fd, uint32(n.watched.wd))
		w.let(n)
	}
	return old
}

// let does without n; mu is held.
func (w *watch) let(n *hostNode) {
	if n.watched.wd != 0 {
		delete(w.dirs, n.watched.wd)
		n.watched.wd, n.watched.kept = 0, nil
		n.watched.seen++ // what was looked at before is not to be kept after
	}
}

// forget ends the watch of a directory that the kernel does not know any more.
func (w *watch) forget(n *hostNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.watched.wd != 0 && w.f != nil {
		unix.InotifyRmWatch(w.fd, uint32(n.watched.wd))
	}
	w.let(n)
}

// close ends the watch and waits for that.
func (w *watch) close() {
	w.mu.Lock()
	f := w.f
	w.f, w.dirs, w.closed = nil, nil, true
	w.mu.Unlock()
	if f != nil {
		f.Close()
		<-w.ended
	}
}
