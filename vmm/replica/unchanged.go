package replica

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Unchanged says whether the folder dir, which may be in use, is what it was
// when the replica then was made of it: then it was that, at the latest, when
// Unchanged began. It looks at the stamp of every file, and into those alone
// of which that does not tell. What it cannot know it takes for a change.
func Unchanged(ctx context.Context, dir, then string) (bool, error) {
	rec, err := readRecord(then)
	if err != nil {
		return false, nil
	}
	top, err := openTop(dir)
	if err != nil {
		return false, err
	}
	defer top.close()
	var st unix.Stat_t
	if err := unix.Fstat(top.fd(), &st); err != nil {
		return false, err
	}
	l := &look{ctx: ctx, then: then, rec: rec, left: len(rec) - 1}
	if was := rec[""]; !honest(top.fd()) || was.Stamp != stampOf(&st) {
		return false, nil
	}
	same, err := l.folder(top, "")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES) || errors.Is(err, errMoved) {
		return false, nil
	}
	return same && l.left == 0, err
}

// A look is one walk over a folder to see whether it has changed.
type look struct {
	ctx  context.Context
	then string
	rec  record
	left int   // paths of the record that were not met
	read int64 // see compareMost
}

// folder looks at what is in f, whose path is prefix, with a slash if it is
// not the top.
func (l *look) folder(f *folder, prefix string) (bool, error) {
	names, err := f.file.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if l.ctx.Err() != nil {
			return false, context.Cause(l.ctx)
		}
		if same, err := l.entry(f, name, prefix+name); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (l *look) entry(f *folder, name, path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, err
	}
	was, ok := l.rec[path]
	if !ok || was.Stamp != stampOf(&st) {
		return false, nil
	}
	l.left--
	if was.Stamp.kind() == unix.S_IFDIR {
		return l.branch(f, name, path)
	}
	return was.Sure || l.equal(f, name, path, &st), nil
}

func (l *look) branch(f *folder, name, path string) (_ bool, err error) {
	fd, err := unix.Openat(f.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	d, err := f.within(fd, name)
	if err != nil {
		return false, err
	}
	same, err := l.folder(d, path+"/")
	return same, errors.Join(err, d.leave())
}

// equal compares a file with the replica's copy.
func (l *look) equal(f *folder, name, path string, st *unix.Stat_t) bool {
	if l.read += st.Size; l.read > compareMost {
		return false
	}
	dir, base, err := reach(l.then, path)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	same, err := equal(l.ctx, f.fd(), name, dir, base, st)
	return same && err == nil
}
