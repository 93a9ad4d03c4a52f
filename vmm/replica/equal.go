package replica

import (
	"bytes"
	"context"
	"maps"
	"os"
	"time"

	"hutch/fs/sparse"

	"golang.org/x/sys/unix"
)

// compareMost is how many bytes are compared, where stamps do not tell, before
// files are taken for different: that is never wrong, and the next replica has
// stamps that tell.
const compareMost = 8 << 20

// equal says whether the replica has the entry called name as it is, whose
// stamp does not tell.
func (p *pass) equal(from, to *folder, name string, old *entry, st *unix.Stat_t, now time.Time) bool {
	if p.read += st.Size; p.read > compareMost {
		return false
	}
	same, err := equal(p.ctx, from.fd(), name, to.fd(), name, st)
	if err != nil || !same {
		return false
	}
	old.sure = old.stamp.sure(now) // what comes later shows
	return true
}

// equal says whether two entries that are no folders, and of the same kind,
// have the same in them and the same extended attributes; st is of the first.
func equal(ctx context.Context, dir int, name string, otherDir int, other string, st *unix.Stat_t) (bool, error) {
	switch stampOf(st).kind() {
	case unix.S_IFREG:
		return equalFiles(ctx, dir, name, otherDir, other, st.Size)
	case unix.S_IFLNK:
		a, err := readlink(dir, name)
		if err != nil {
			return false, err
		}
		b, err := readlink(otherDir, other)
		return a == b, err
	}
	return true, nil
}

func readlink(dir int, name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(dir, name, buf)
	return string(buf[:max(n, 0)]), err
}

func equalFiles(ctx context.Context, dir int, name string, otherDir int, other string, size int64) (bool, error) {
	f, err := openFile(dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, err := openFile(otherDir, other)
	if err != nil {
		return false, err
	}
	defer g.Close()
	if same, err := equalAttrs(attrsOf(int(f.Fd())), attrsOf(int(g.Fd()))); err != nil || !same {
		return false, err
	}
	return sparse.Equal(f, g, size, func() error { return context.Cause(ctx) })
}

// openFile opens a regular file, and waits for nothing that took its place.
func openFile(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && stampOf(&st).kind() != unix.S_IFREG {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func equalAttrs(a, b attrs) (bool, error) {
	x, err := a.all()
	if err != nil {
		return false, err
	}
	y, err := b.all()
	return maps.Equal(x, y), err
}

// all returns the extended attributes that people set, by name.
func (a attrs) all() (map[string]string, error) {
	names, err := a.names()
	if len(names) == 0 || err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, name := range names {
		if given(name) {
			continue
		}
		value, err := sized(func(buf []byte) (int, error) { return a.get(name, buf) })
		if err == nil {
			all[name] = string(value)
		}
	}
	return all, nil
}

// names returns the names of extended attributes.
func (a attrs) names() (names []string, err error) {
	list, err := sized(a.list)
	if len(list) == 0 || err != nil {
		return nil, ignoreUnsupported(err)
	}
	for _, b := range bytes.Split(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		names = append(names, string(b))
	}
	return names, nil
}
