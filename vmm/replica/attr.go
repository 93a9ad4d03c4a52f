package replica

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dress gives the entry called name of the folder dir of the replica the
// attributes of the original, in an order in which none undoes another: owner,
// extended attributes, times, mode.
func dress(from, to attrs, dir int, name string, st *unix.Stat_t) error {
	err := own(dir, name, st)
	if err == nil {
		err = copyAttrs(from, to)
	}
	if err == nil {
		err = unix.UtimesNanoAt(dir, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && stampOf(st).kind() != unix.S_IFLNK {
		err = unix.Fchmodat(dir, name, permissions(st), 0)
	}
	return err
}

// dressFolder gives an open folder of the replica those of the original.
func dressFolder(from, to *folder, st *unix.Stat_t) error {
	if err := dress(attrsOf(from.fd()), attrsOf(to.fd()), to.fd(), ".", st); err != nil {
		return pathError(from.path(), err)
	}
	return nil
}

func permissions(st *unix.Stat_t) uint32 { return uint32(st.Mode) & 0o7777 }
func superuser() bool                    { return os.Geteuid() == 0 }

// own sets an owner. Ordinary users can give nothing away, and where users
// are mapped not all exist.
func own(dir int, name string, st *unix.Stat_t) error {
	err := unix.Fchownat(dir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EPERM) && !superuser() || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// attrs are the extended attributes of a file.
type attrs struct {
	list func(buf []byte) (int, error)
	get  func(name string, buf []byte) (int, error)
	set  func(name string, value []byte) error
	drop func(name string) error
}

func attrsOf(fd int) attrs {
	return attrs{
		list: func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) },
		get:  func(name string, buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) },
		set:  func(name string, value []byte) error { return unix.Fsetxattr(fd, name, value, 0) },
		drop: func(name string) error { return unix.Fremovexattr(fd, name) },
	}
}

func copyAttrs(from, to attrs) error {
	names, err := from.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := sized(func(buf []byte) (int, error) { return from.get(name, buf) })
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EPERM) {
			continue
		}
		if err == nil {
			err = to.set(name, value)
		}
		if err != nil && !given(name) {
			return err
		}
	}
	return nil
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// given says whether the system itself gives files an attribute of that name,
// so that not everyone can set it everywhere.
func given(name string) bool {
	return strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "system.") || strings.HasPrefix(name, "com.apple.")
}

// sized returns what f has to say, however long it is.
func sized(f func(buf []byte) (int, error)) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n, err := f(buf)
		if err == nil {
			return buf[:n], nil
		}
		if !errors.Is(err, unix.ERANGE) || len(buf) > 1<<20 {
			return nil, err
		}
		buf = make([]byte, 16*len(buf))
	}
}
