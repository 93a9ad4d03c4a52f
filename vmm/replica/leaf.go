package replica

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"hutch/fs/sparse"

	"golang.org/x/sys/unix"
)

// leaf copies what is no folder, unless the replica has it as it is.
func (p *pass) leaf(from, to *folder, name string, st *unix.Stat_t, old *entry, now time.Time) (*entry, error) {
	if old != nil && old.stamp == stampOf(st) && (old.sure || p.dressed && p.equal(from, to, name, old, st, now)) {
		if old.skipped {
			p.cost.Skipped++
		}
		return old, nil
	}
	p.changed = true
	if old != nil {
		if err := removeAt(to.fd(), name); err != nil {
			return nil, err
		}
	}
	if e := p.r.link(from, to, name, st); e != nil {
		return e, nil
	}
	e := &entry{clean: !p.last}
	var err error
	switch stampOf(st).kind() {
	case unix.S_IFREG:
		err = p.regular(from, to, name, st, e)
	case unix.S_IFLNK:
		err = symlink(from, to, name)
	default:
		if err = special(to.fd(), name, st); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
			e.skipped, err = true, nil
			p.cost.Skipped++
		}
	}
	if err == nil && !e.skipped && stampOf(st).kind() != unix.S_IFREG {
		err = dress(attrsAt(from.fd(), name), attrsAt(to.fd(), name), to.fd(), name, st)
	}
	p.work += perFile + e.copied
	e.stamp = stampOf(st)
	e.sure = e.stamp.sure(now)
	return e, err
}

func symlink(from, to *folder, name string) error {
	target, err := readlink(from.fd(), name)
	if err != nil {
		return errMoved
	}
	return unix.Symlinkat(target, to.fd(), name)
}

// regular copies a regular file, and leaves in st what it was when that began.
func (p *pass) regular(from, to *folder, name string, st *unix.Stat_t, e *entry) error {
	fd, relock, err := p.open(from.fd(), name, st, 0)
	if err != nil {
		return err
	}
	defer relock()
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	if !p.last {
		clean(in)
	}
	out, err := p.contents(in, to, name, st, e)
	if err != nil {
		return err
	}
	err = dress(attrsOf(int(in.Fd())), attrsOf(int(out.Fd())), to.fd(), name, st)
	return cmp.Or(err, out.Close())
}

// contents makes the file called name in to with what in has in it.
func (p *pass) contents(in *os.File, to *folder, name string, st *unix.Stat_t, e *entry) (*os.File, error) {
	if !p.r.alone {
		out, err := share(in, to.fd(), name)
		switch {
		case err == nil:
			e.shared = int64(st.Size)
			return out, nil
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.ENOSYS):
			p.r.alone = true
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM), errors.Is(err, unix.ETXTBSY): // just not this one
		default:
			return nil, err
		}
	}
	out, err := create(to.fd(), name)
	if err != nil {
		return nil, err
	}
	if e.copied, err = p.copy(in, out); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func create(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// copy copies the data of in to out, and leaves its holes. It returns how
// much that was.
func (p *pass) copy(in, out *os.File) (int64, error) {
	fi, err := in.Stat()
	if err != nil {
		return 0, err
	}
	size, sum := fi.Size(), int64(0)
	data := sparse.Of(in, size)
	for begin, end := data.From(0); begin < end; begin, end = data.From(end) {
		n, err := p.extent(in, out, begin, end)
		sum += n
		if err != nil {
			return sum, err
		}
		if begin+n < end { // it has become shorter
			size = begin + n
			break
		}
	}
	return sum, out.Truncate(size)
}

// chunk is how much is copied before the context is asked.
const chunk = 4 << 20

// extent copies the bytes from begin to end, or to that of the file if it has
// become shorter.
func (p *pass) extent(in, out *os.File, begin, end int64) (int64, error) {
	at, buf := begin, []byte(nil)
	for at < end {
		if p.ctx.Err() != nil {
			return at - begin, context.Cause(p.ctx)
		}
		want := min(chunk, end-at)
		n, err := int64(0), error(unix.ENOSYS)
		if buf == nil {
			n, err = transfer(in, out, at, want)
		}
		if err != nil {
			if buf == nil {
				buf = make([]byte, 256<<10)
			}
			n, err = through(buf[:min(want, int64(len(buf)))], in, out, at)
		}
		at += n
		if err != nil || n == 0 {
			return at - begin, err
		}
	}
	return at - begin, nil
}

// through copies what is at off by way of buf.
func through(buf []byte, in, out *os.File, off int64) (int64, error) {
	n, err := in.ReadAt(buf, off)
	if n == 0 {
		if err == io.EOF {
			err = nil
		}
		return 0, err
	}
	n, err = out.WriteAt(buf[:n], off)
	return int64(n), err
}
