package replica

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// search opens a folder only to go on from there, which needs no right to read.
const search = unix.O_PATH

// share makes the file called name in the folder dir of the blocks of in.
func share(in *os.File, dir int, name string) (*os.File, error) {
	out, err := create(dir, name)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err != nil {
		out.Close()
		unix.Unlinkat(dir, name, 0)
		return nil, err
	}
	return out, nil
}

// transfer copies up to n bytes at off within the kernel.
func transfer(in, out *os.File, off, n int64) (int64, error) {
	from, to := off, off
	k, err := unix.CopyFileRange(int(in.Fd()), &from, int(out.Fd()), &to, int(n), 0)
	return int64(k), err
}

// clean writes the file's pages to the disk: what is stored in a page through
// a mapping changes the file's times only where the page was clean before.
func clean(f *os.File) {
	unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}

// honest says whether what is stored through a mapping changes a file's times
// at all: not where files live in memory only.
func honest(dir int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(dir, &st) == nil && st.Type != unix.TMPFS_MAGIC && st.Type != unix.RAMFS_MAGIC
}

// special makes a pipe, a socket or a device like the one that st is of.
func special(dir int, name string, st *unix.Stat_t) error {
	return unix.Mknodat(dir, name, uint32(st.Mode), int(st.Rdev))
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// attrsAt returns the extended attributes of the entry called name.
func attrsAt(dir int, name string) attrs {
	path := procPath(dir) + "/" + name
	return attrs{
		list: func(buf []byte) (int, error) { return unix.Llistxattr(path, buf) },
		get:  func(name string, buf []byte) (int, error) { return unix.Lgetxattr(path, name, buf) },
		set:  func(name string, value []byte) error { return unix.Lsetxattr(path, name, value, 0) },
	}
}

// Unlock opens the entry called name of the folder dir, a file of our own that st
// is of and whose mode forbids it. It has another mode until the function is
// called. It follows no link. Where another file has its place it returns ENOENT.
func Unlock(dir int, name string, st *unix.Stat_t, flags int) (int, func(), error) {
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	var now unix.Stat_t
	relock := func() {
		unix.Chmod(procPath(at), permissions(&now))
		unix.Close(at)
	}
	err = unix.Fstat(at, &now)
	if err == nil && (stampOf(&now).inode() != stampOf(st).inode() || stampOf(&now).kind() == unix.S_IFLNK) {
		err = unix.ENOENT
	}
	if err == nil && unix.Chmod(procPath(at), permissions(&now)|0o500) != nil {
		err = unix.EACCES
	}
	if err != nil {
		unix.Close(at)
		return -1, nil, err
	}
	fd, err := unix.Open(procPath(at), flags&^unix.O_NOFOLLOW, 0)
	if err != nil {
		relock()
	}
	return fd, relock, err
}
