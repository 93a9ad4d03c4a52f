package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hutch/fs"

	"golang.org/x/sys/unix"
)

// Changes are what Restore did.
type Changes struct {
	Restored int      // files and folders that are what they were again
	Removed  int      // that came since, a folder with all in it as one
	Paths    []Change // the first of them
}

// A Change is a path that Restore has put back. A folder's ends in a slash.
type Change struct {
	Verb, Path string
}

// pathsMost is how many paths Changes has.
const pathsMost = 200

func (c *Changes) restored(path string) {
	c.Restored++
	c.tell("restored", path)
}

func (c *Changes) removed(path string) {
	c.Removed++
	c.tell("removed", path)
}

func (c *Changes) tell(verb, path string) {
	if len(c.Paths) < pathsMost {
		c.Paths = append(c.Paths, Change{verb, path})
	}
}

// Restore makes the folder dir what it was when the replica then was made of it.
// The folder may be in use: it and what is in place stay, each file that is
// not what it was is replaced at once by one that is, and what came since is
// moved into the folder aside, which is on the same file system and the
// caller's to make before and to remove afterwards. Whoever changes dir
// meanwhile is not led out of it, nor are we; where names are moved under our
// hands Restore fails. What was cut short can be begun again.
func Restore(ctx context.Context, dir, then, aside string) (Changes, error) {
	rec, err := readRecord(then)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Changes{}, fmt.Errorf("%w: record of %s: %w", fs.ErrIO, then, err)
	}
	b := &back{rec: rec, links: make(map[inode]again)}
	b.p = (&Replica{from: then, to: aside}).newPass(ctx, new(Cost))
	b.p.last = true
	for _, f := range []struct {
		at   **folder
		path string
	}{{&b.fresh, filepath.Join(aside, "new")}, {&b.old, filepath.Join(aside, "old")}, {&b.kept, filepath.Join(aside, "links")}} {
		if err := os.Mkdir(f.path, 0o700); err != nil {
			return Changes{}, err
		}
		if *f.at, err = openTop(f.path); err != nil {
			return Changes{}, err
		}
		defer (*f.at).close()
	}
	s, err := openTop(then)
	if err != nil {
		return Changes{}, err
	}
	defer s.close()
	w, err := openTop(dir)
	if err != nil {
		return Changes{}, err
	}
	defer w.close()
	if err = b.folder(s, w, "", false); errors.Is(err, errMoved) {
		err = fmt.Errorf("%w: it is changed meanwhile", fs.ErrBusy)
	}
	return b.Changes, err
}

// A back is a restoring under way: from a replica s to a folder w.
type back struct {
	Changes
	p     *pass // which copies single files of the replica
	rec   record
	fresh *folder // where files are made before they get their place
	old   *folder // where things go that lose theirs
	kept  *folder // names of files with several names
	links map[inode]again
	n     int // names in old and kept
}

// An again is a file with several names, of which one is in place.
type again struct {
	name string // in kept
	ino  uint64
}

func (b *back) number() string {
	b.n++
	return fmt.Sprint(b.n)
}

// folder makes what is in w, which was just made or not, like what is in s. Its
// path is prefix, with a slash if it is not the top.
func (b *back) folder(s, w *folder, prefix string, made bool) error {
	var st, now unix.Stat_t
	if err := errors.Join(unix.Fstat(s.fd(), &st), unix.Fstat(w.fd(), &now)); err != nil {
		return err
	}
	locked := !superuser() && now.Mode&0o700 != 0o700
	if locked {
		unix.Fchmod(w.fd(), permissions(&now)|0o700)
	}
	if err := b.clear(s, w, prefix); err != nil {
		return err
	}
	names, err := s.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names) // as it is told
	for _, name := range names {
		if b.p.ctx.Err() != nil {
			return context.Cause(b.p.ctx)
		}
		if err := b.entry(s, w, name, prefix+name); err != nil {
			return at(prefix+name, err)
		}
	}
	same, err := sameFolder(s, w, &st, &now)
	if !same && !made && err == nil {
		b.restored(cmp.Or(prefix, "./"))
	}
	var after unix.Stat_t
	if err = cmp.Or(err, unix.Fstat(w.fd(), &after)); err == nil && (!same || locked || after.Mtim != st.Mtim) {
		err = dressBack(s, w, &st)
	}
	return err
}

// at says where err was met, unless it says that.
func at(path string, err error) error {
	if _, told := errors.AsType[*os.PathError](err); told || errors.Is(err, errMoved) {
		return err
	}
	return pathError(path, err)
}

// clear moves aside what w has and s has not.
func (b *back) clear(s, w *folder, prefix string) error {
	names, err := w.file.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var st, now unix.Stat_t
		if err := unix.Fstatat(s.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
			continue
		}
		if _, was := b.rec[prefix+name]; was {
			continue // a device, which no replica has
		}
		if unix.Fstatat(w.fd(), name, &now, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone meanwhile
		}
		if err := b.away(w, name); err != nil {
			return at(prefix+name, err)
		}
		if stampOf(&now).kind() == unix.S_IFDIR {
			name += "/"
		}
		b.removed(prefix + name)
	}
	return nil
}

// away moves what is called name aside.
func (b *back) away(w *folder, name string) error {
	return ignoreGone(unix.Renameat(w.fd(), name, b.old.fd(), b.number()))
}

func (b *back) entry(s, w *folder, name, path string) error {
	var st, now unix.Stat_t
	if err := unix.Fstatat(s.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	err := unix.Fstatat(w.fd(), name, &now, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	there := err == nil
	if there && stampOf(&now).kind() != stampOf(&st).kind() && (stampOf(&st).kind() == unix.S_IFDIR || stampOf(&now).kind() == unix.S_IFDIR) {
		if err := b.away(w, name); err != nil {
			return err
		}
		there = false
	}
	switch {
	case stampOf(&st).kind() == unix.S_IFDIR:
		return b.branch(s, w, name, path, !there)
	case b.rec[path].Stamp.Nlink > 1:
		return b.linked(s, w, name, path, &st, &now, there)
	case there && b.same(s, w, name, path, &st, &now):
		return nil
	}
	return b.put(s, w, name, path, &st)
}

// branch makes a folder in w like the one in s.
func (b *back) branch(s, w *folder, name, path string, made bool) (err error) {
	if made {
		if err := unix.Mkdirat(w.fd(), name, 0o700); err != nil {
			return err
		}
		b.restored(path + "/")
	}
	from, relock, err := b.enter(s, name)
	if err != nil {
		return err
	}
	defer relock()
	defer func() { err = cmp.Or(err, from.leave()) }()
	to, opened, err := b.enter(w, name)
	if err != nil {
		return err
	}
	opened() // what it needs to be changed, folder sees to
	defer func() { err = cmp.Or(err, to.leave()) }()
	return b.folder(from, to, path+"/", made)
}

// enter opens a folder, also one whose mode forbids it, until the function is
// called.
func (b *back) enter(f *folder, name string) (*folder, func(), error) {
	var st unix.Stat_t
	if err := unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, nil, err
	}
	fd, relock, err := b.p.open(f.fd(), name, &st, unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, err
	}
	d, err := f.within(fd, name)
	if err != nil {
		relock()
	}
	return d, relock, err
}

// linked sees to a file that has several names: the first that is met gets in
// place as any other, and the others become names of that.
func (b *back) linked(s, w *folder, name, path string, st, now *unix.Stat_t, there bool) error {
	key := b.rec[path].Stamp.inode()
	first, ok := b.links[key]
	if ok {
		if there && now.Ino == first.ino {
			return nil
		}
		if err := unix.Linkat(b.kept.fd(), first.name, b.fresh.fd(), name, 0); err != nil {
			return err
		}
		return b.place(w, name, path)
	}
	if !there || !b.same(s, w, name, path, st, now) {
		if err := b.put(s, w, name, path, st); err != nil {
			return err
		}
	}
	first.name = b.number()
	if err := unix.Linkat(w.fd(), name, b.kept.fd(), first.name, 0); err != nil {
		return err
	}
	var is unix.Stat_t
	err := unix.Fstatat(b.kept.fd(), first.name, &is, unix.AT_SYMLINK_NOFOLLOW)
	first.ino = is.Ino
	b.links[key] = first
	return err
}

// put puts a copy of what s has in its place in w.
func (b *back) put(s, w *folder, name, path string, st *unix.Stat_t) error {
	if e, err := b.p.leaf(s, b.fresh, name, st, nil, time.Now()); err != nil || e.skipped {
		return errors.Join(err, removeAt(b.fresh.fd(), name))
	}
	return b.place(w, name, path)
}

// place gives what was made its place.
func (b *back) place(w *folder, name, path string) error {
	if err := unix.Renameat(b.fresh.fd(), name, w.fd(), name); err != nil {
		return errors.Join(err, removeAt(b.fresh.fd(), name))
	}
	b.restored(path)
	return nil
}
