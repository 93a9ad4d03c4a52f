package fuse

import (
	"context"
	"math/bits"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"hutch/fs"
)

// A hostFolder is a folder of the host that is served as it is. Whoever else
// can write there may exchange a directory for a link to anywhere between
// any two system calls. So no path is ever followed but by openat2 below the
// open folder, through no link at all, and what a file is then asked is
// asked of its descriptor.
//
// They change it behind the kernel's back, too. So the kernel keeps names and
// attributes only where it is told of each change (watch).
type hostFolder struct {
	s   *Server
	dir string
	id  hostID
	top *hostNode

	links *foreign // what links mean, if they are another machine's

	opaque time.Time // nothing in it is kept until then
	since  time.Time // when news were counted first
	news   int       // how many came since

	mu sync.Mutex // guards at
	at *os.File   // opened when it is needed; at the latest the collector closes it
}

// A hostID tells files of the host apart.
type hostID struct {
	dev, ino uint64
	kind     uint32
}

// A hostNode is a file or directory in a folder.
type hostNode struct {
	gofs.Inode
	f      *hostFolder
	id     hostID
	born   uint64 // tells apart files that had the same number
	cached cachedFD

	watched watched // of a directory

	mu      sync.Mutex             // guards what follows
	open    map[*hostFile]struct{} // of a file
	writers int                    // so many of them for writing
	told    time.Time              // when the kernel was told what it is like, if it was not opened since
}

// canOpenat2 says whether the kernel, and whoever watches over this process, has openat2.
var canOpenat2 = sync.OnceValue(func() bool {
	fd, err := openBelow(unix.AT_FDCWD, ".")
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
})

// openBelow finds path in the directory at, through no link, without opening it.
func openBelow(at int, path string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(at, path, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// host returns what serves n if it is a folder of the host, and a number
// that tells this folder from another that takes its place.
func (s *Server) host(n fs.Node) (gofs.InodeEmbedder, uint64, bool) {
	h, ok := n.(fs.HostDir)
	if !ok || h.HostDir() == "" || !canOpenat2() {
		return nil, 0, false
	}
	var st unix.Stat_t
	if err := unix.Stat(h.HostDir(), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, 0, false
	}
	id := hostID{dev: st.Dev, ino: st.Ino, kind: unix.S_IFDIR}
	f := &hostFolder{s: s, dir: h.HostDir(), id: id}
	f.top = &hostNode{f: f, id: id}
	f.links = foreignOf(n, f.top.EmbeddedInode(), nil)
	return f.top, id.ino ^ bits.RotateLeft64(id.dev, 40), true
}

func (s *Server) hostTop(root fs.Node) (gofs.InodeEmbedder, bool) {
	h, _, ok := s.host(root)
	return h, ok
}

// dup returns a descriptor of the folder.
func (f *hostFolder) dup() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		fd, err := unix.Open(f.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		if st, err := statx(fd); err != nil || idOf(st) != f.id { // another has its place
			unix.Close(fd)
			return -1, unix.ESTALE
		}
		f.at = os.NewFile(uintptr(fd), f.dir)
	}
	return unix.FcntlInt(f.at.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// close is for when the kernel knows nothing of the folder any more.
func (f *hostFolder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at != nil {
		f.at.Close()
		f.at = nil
	}
}

// with calls do with a descriptor of the file itself, opened for nothing
// (O_PATH). Where the file is not what it was when the kernel asked for it,
// ESTALE makes the kernel look it up again, once.
func (n *hostNode) with(do func(fd int) error) syscall.Errno {
	fd, err := n.find()
	if err == nil {
		err = do(fd)
		unix.Close(fd)
	}
	return gofs.ToErrno(err)
}

// find returns a descriptor of the file: one that there is, or one that is
// found by its name, if it still has that.
func (n *hostNode) find() (int, error) {
	if fd, ok := n.dupOpen(); ok {
		return fd, nil
	}
	at, path, err := n.nearest()
	if err != nil {
		return -1, err
	}
	fd, err := openDeep(at, path)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return -1, unix.ESTALE
	default:
		return -1, err
	}
	if st, err := statx(fd); err != nil || idOf(st) != n.id {
		unix.Close(fd)
		return -1, unix.ESTALE
	}
	return fd, nil
}

// procPath names the file of a descriptor for calls that take no descriptor
// of a file that is not open.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func statx(fd int) (*unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return &st, err
}

func idOf(st *unix.Statx_t) hostID {
	return hostID{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, kind: uint32(st.Mode) & unix.S_IFMT}
}

func setHostAttr(a *gofuse.Attr, st *unix.Statx_t) {
	*a = gofuse.Attr{
		Ino:  fs.HostQid(unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino),
		Mode: uint32(st.Mode), Size: st.Size, Blocks: st.Blocks, Blksize: st.Blksize,
		Nlink: st.Nlink, Owner: gofuse.Owner{Uid: st.Uid, Gid: st.Gid},
		Rdev:  uint32(unix.Mkdev(st.Rdev_major, st.Rdev_minor)),
		Atime: uint64(st.Atime.Sec), Atimensec: st.Atime.Nsec,
		Mtime: uint64(st.Mtime.Sec), Mtimensec: st.Mtime.Nsec,
		Ctime: uint64(st.Ctime.Sec), Ctimensec: st.Ctime.Nsec,
	}
}

// child returns the inode of the entry called name in the directory dir.
func (n *hostNode) child(ctx context.Context, dir int, name string, out *gofuse.EntryOut) (*gofs.Inode, error) {
	seen, over := n.f.s.watch.over(n, dir) // before the look
	fd, err := openBelow(dir, name)
	if err != nil {
		return nil, err
	}
	ch, err := n.inode(ctx, fd, name, out)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	found := ch.Operations().(*hostNode)
	if over && calm(&out.Attr) && n.f.s.watch.keeps(n, seen, name, ch) {
		found.keepEntry(out)
	}
	found.cacheFD(fd)
	return ch, nil
}

// inode returns the inode of the file fd, which is called name. Host files
// use their numbers again; the time of birth tells the new from the old.
func (n *hostNode) inode(ctx context.Context, fd int, name string, out *gofuse.EntryOut) (*gofs.Inode, error) {
	st, err := statx(fd)
	if err != nil {
		return nil, err
	}
	setHostAttr(&out.Attr, st)
	ops := &hostNode{f: n.f, id: idOf(st), born: uint64(st.Btime.Sec)*1e9 + uint64(st.Btime.Nsec)}
	if ops.id.kind == unix.S_IFLNK {
		if out.Attr.Size, err = n.linkSize(fd, n.EmbeddedInode()); err != nil {
			return nil, err
		}
	}
	if old := n.GetChild(name); old != nil {
		if h, ok := old.Operations().(*hostNode); ok && h.id == ops.id && h.born == ops.born {
			return old, nil
		}
	}
	id := gofs.StableAttr{Ino: out.Attr.Ino, Mode: ops.id.kind, Gen: ops.born}
	if placed(ops.id.kind) {
		id.Gen = n.f.s.places.of(n.EmbeddedInode(), name, ops.born)
	}
	return n.NewInode(ctx, ops, id), nil
}

func (n *hostNode) Lookup(ctx context.Context, name string, out *gofuse.EntryOut) (child *gofs.Inode, errno syscall.Errno) {
	errno = n.with(func(dir int) (err error) {
		child, err = n.child(ctx, dir, name, out)
		return err
	})
	return child, errno
}

func (n *hostNode) Getattr(ctx context.Context, f gofs.FileHandle, out *gofuse.AttrOut) syscall.Errno {
	open, held := f.(opened) // which may have another name by now
	stat := func(fd int) error {
		watch := &n.f.s.watch
		dir, seen, name, told := watch.about(n, fd) // before the look
		st, err := statx(fd)
		if err == nil {
			setHostAttr(&out.Attr, st)
			if told && calm(&out.Attr) && watch.keeps(dir, seen, name, n.EmbeddedInode()) {
				out.SetTimeout(keep)
			}
			out.Attr.Ino = n.StableAttr().Ino
			if n.id.kind == unix.S_IFLNK {
				_, dir := n.Parent()
				out.Attr.Size, err = n.linkSize(fd, dir)
			}
		}
		return err
	}
	if held {
		return open.with(stat)
	}
	return n.with(stat)
}

// Statx is Getattr with the time of birth.
func (n *hostNode) Statx(ctx context.Context, f gofs.FileHandle, _, _ uint32, out *gofuse.StatxOut) syscall.Errno {
	var attr gofuse.AttrOut
	if errno := n.Getattr(ctx, f, &attr); errno != 0 {
		return errno
	}
	setStatx(&out.Statx, &attr.Attr)
	out.Blksize = attr.Blksize
	return n.with(func(fd int) error {
		st, err := statx(fd)
		if err != nil {
			return err
		}
		out.RdevMajor, out.RdevMinor = st.Rdev_major, st.Rdev_minor
		if st.Mask&unix.STATX_BTIME != 0 {
			out.Mask |= statBirth
			out.Btime = gofuse.SxTime{Sec: uint64(st.Btime.Sec), Nsec: st.Btime.Nsec}
		}
		return nil
	})
}

func (n *hostNode) Readlink(ctx context.Context) (target []byte, errno syscall.Errno) {
	errno = n.with(func(fd int) error {
		_, dir := n.Parent()
		to, err := n.link(fd, dir)
		target = []byte(to)
		return err
	})
	return target, errno
}

// link returns what is served for the link fd in the directory dir.
func (n *hostNode) link(fd int, dir *gofs.Inode) (string, error) {
	buf := make([]byte, unix.PathMax)
	l, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return n.f.s.link(dir, n.f.links, string(buf[:l])), nil
}

func (n *hostNode) linkSize(fd int, dir *gofs.Inode) (uint64, error) {
	to, err := n.link(fd, dir)
	return uint64(len(to)), err
}

func (n *hostNode) Statfs(ctx context.Context, out *gofuse.StatfsOut) syscall.Errno {
	return n.with(func(fd int) error {
		var st syscall.Statfs_t
		if err := syscall.Fstatfs(fd, &st); err != nil {
			return err
		}
		out.FromStatfsT(&st)
		return nil
	})
}

var _ interface {
	kernelNode
	gofs.NodeTmpfiler
} = (*hostNode)(nil)
