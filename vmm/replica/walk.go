package replica

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// errMoved is returned when a name means another file than a moment ago.
var errMoved = errors.New("file was replaced while it was copied")

// patience is how often a file that is replaced again and again is tried.
const patience = 100

// folder copies what is in from to to, and returns what it has seen.
func (p *pass) folder(from, to *folder, old *entry) (map[string]*entry, error) {
	names, err := from.file.Readdirnames(-1)
	if errors.Is(err, unix.ENOENT) { // it was removed since it was opened
		return nil, errMoved
	}
	if err != nil {
		return nil, pathError(from.path(), err)
	}
	kids := make(map[string]*entry, len(names))
	for _, name := range names {
		if p.ctx.Err() != nil {
			return nil, context.Cause(p.ctx)
		}
		e, err := p.one(from, to, name, old.kid(name))
		if err != nil {
			return nil, err
		}
		if e != nil {
			kids[name] = e
		}
	}
	if old == nil {
		return kids, nil
	}
	for name := range old.kids {
		if kids[name] == nil {
			p.changed = true
			if err := removeAt(to.fd(), name); err != nil {
				return nil, err
			}
		}
	}
	return kids, nil
}

func (e *entry) kid(name string) *entry {
	if e == nil {
		return nil
	}
	return e.kids[name]
}

// one copies the entry called name, and returns nil if it is not there, or
// is to be left for the last pass.
func (p *pass) one(from, to *folder, name string, old *entry) (*entry, error) {
	for range patience {
		e, err := p.try(from, to, name, old)
		var told *os.PathError
		switch {
		case err == nil:
			return e, nil
		case p.ctx.Err() != nil || errors.As(err, &told):
			return nil, err
		case errors.Is(err, errMoved):
		case !p.last && errors.Is(err, unix.EACCES):
			p.changed = true
			return nil, removeAt(to.fd(), name)
		default:
			return nil, pathError(from.name(name), err)
		}
		if err := removeAt(to.fd(), name); err != nil {
			return nil, err
		}
		old = nil
	}
	return nil, pathError(from.name(name), errMoved)
}

func pathError(path string, err error) error {
	return &os.PathError{Op: "copy", Path: fs.Shorten(path), Err: err}
}

func (p *pass) try(from, to *folder, name string, old *entry) (*entry, error) {
	now := time.Now()
	var st unix.Stat_t
	if err := unix.Fstatat(from.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, err
	}
	s := stampOf(&st)
	if old != nil && (old.stamp.inode() != s.inode() || old.stamp.kind() != s.kind()) {
		if err := removeAt(to.fd(), name); err != nil {
			return nil, err
		}
		old = nil
	}
	if s.kind() == unix.S_IFDIR {
		return p.branch(from, to, name, &st, old)
	}
	if s.Nlink > 1 {
		if e, err := p.again(to, name, s, old); e != nil || err != nil {
			return e, err
		}
	}
	e, err := p.leaf(from, to, name, &st, old, now)
	if err != nil || e.skipped {
		return e, err
	}
	if s.Nlink > 1 {
		p.links[s.inode()] = to.name(name)
	}
	p.count(e)
	return e, nil
}

func (p *pass) count(e *entry) {
	p.cost.Files++
	p.cost.Shared += e.shared
	p.cost.Linked += e.linked
	p.cost.Copied += e.copied
	if e.stamp.kind() == unix.S_IFREG {
		p.cost.Bytes += e.stamp.Size
	}
}

// again makes name another name of a file that this pass has seen under one.
// It returns nil if there is none.
func (p *pass) again(to *folder, name string, s stamp, old *entry) (*entry, error) {
	first, ok := p.links[s.inode()]
	if !ok {
		return nil, nil
	}
	p.cost.Files++
	dir, path, err := reach(p.r.to, first)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	e := &entry{stamp: s} // which the next pass looks at anew
	p.changed = p.changed || old == nil || old.stamp != s
	if old != nil {
		var a, b unix.Stat_t
		if unix.Fstatat(dir, path, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstatat(to.fd(), name, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Ino == b.Ino {
			return e, nil
		}
		p.changed = true
		if err := removeAt(to.fd(), name); err != nil {
			return nil, err
		}
	}
	return e, unix.Linkat(dir, path, to.fd(), name, 0)
}

// reach opens the folder below top that has the last name of path, which may
// be longer than the system takes at once. Nobody else writes below top.
func reach(top, path string) (dir int, name string, err error) {
	const flags = search | unix.O_DIRECTORY | unix.O_CLOEXEC
	if dir, err = unix.Open(top, flags, 0); err != nil {
		return -1, "", err
	}
	for len(path) >= pathMax {
		at := strings.LastIndexByte(path[:pathMax], '/')
		next, err := unix.Openat(dir, path[:at], flags|unix.O_NOFOLLOW, 0)
		unix.Close(dir)
		if err != nil {
			return -1, "", err
		}
		dir, path = next, path[at+1:]
	}
	return dir, path, nil
}

// pathMax is how much of a path the system is given at once.
const pathMax = 4000

// branch copies a folder in the folder from.
func (p *pass) branch(from, to *folder, name string, st *unix.Stat_t, old *entry) (_ *entry, err error) {
	now := time.Now()
	p.changed = p.changed || old == nil || old.stamp != stampOf(st)
	in, relock, err := p.open(from.fd(), name, st, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer relock()
	f, err := from.within(in, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, f.leave()) }()
	if old == nil {
		err = unix.Mkdirat(to.fd(), name, 0o700)
	} else if !superuser() { // for whom an earlier pass may have closed it
		err = unix.Fchmodat(to.fd(), name, 0o700, 0)
	}
	if err != nil {
		return nil, err
	}
	out, err := unix.Openat(to.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t, err := to.within(out, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, t.leave()) }()
	kids, err := p.folder(f, t, old)
	if err != nil {
		return nil, err
	}
	p.cost.Folders++
	if p.last || p.dressed {
		if err := dressFolder(f, t, st); err != nil {
			return nil, err
		}
	}
	s := stampOf(st)
	return &entry{stamp: s, sure: s.sure(now), clean: true, kids: kids}, nil
}

// open opens the entry called name of the folder dir of the original for
// reading; st is what it was a moment ago, and is brought up to date. What its
// mode forbids our own user is allowed until the function is called.
func (p *pass) open(dir int, name string, st *unix.Stat_t, flags int) (int, func(), error) {
	was, relock := stampOf(st), func() {}
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) && p.last {
		fd, relock, err = Unlock(dir, name, st, flags)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		return -1, nil, errMoved
	case err != nil:
		return -1, nil, err
	}
	var now unix.Stat_t
	err = unix.Fstat(fd, &now)
	if err == nil && (stampOf(&now).inode() != was.inode() || stampOf(&now).kind() != was.kind()) {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		relock()
		return -1, nil, err
	}
	if !p.last { // in the last nobody changes it but unlock
		*st = now
	}
	return fd, relock, nil
}
