package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// Root returns the root of the guest's file system.
func (g *Guest) Root() fs.Node { return g.RootKeeping(nil) }

// RootKeeping is Root where nothing is removed or renamed of which kept returns an error.
// It is given the absolute path in the guest.
func (g *Guest) RootKeeping(kept func(path string) error) fs.Node {
	return &rootNode{g: g, path: []string{"root"}, kept: kept}
}

// rootNode is a file of the guest, known by its path. Names that a guest
// gives and no file can have are hidden, and its qids are told from those of
// other guests.
type rootNode struct {
	g    *Guest
	path []string
	kept func(path string) error // says why what is at a path of the guest stays; nil: nothing has to
	seen atomic.Pointer[sight]   // what the walk saw, until it is asked for
}

// A sight is what a file was like at a time.
type sight struct {
	at time.Time
	fs.Described
}

// freshness is how long a walk's sight answers for the file: long enough for
// the stat that every client has follow a walk, and that once.
const freshness = 100 * time.Millisecond

// keep is how long clients, and sights, may believe what they know of the
// guest's files.
var keep = time.Second

func (r *rootNode) child(name string) *rootNode {
	return &rootNode{g: r.g, path: append(r.path[:len(r.path):len(r.path)], name), kept: r.kept}
}

// goes says why what is called name cannot go from this directory.
func (r *rootNode) goes(name string) error {
	if r.kept == nil {
		return nil
	}
	return r.kept("/" + path.Join(r.child(name).path[1:]...))
}

// At returns the file called name, if there is one.
func (r *rootNode) At(name string) fs.Node { return r.child(name) }

func (r *rootNode) Stat(ctx context.Context) (fs.Stat, error) {
	if s := r.seen.Swap(nil); s != nil && time.Since(s.at) < freshness {
		return s.Stat, nil
	}
	st, err := r.g.stat(ctx, r.path)
	return r.g.mark(st, time.Now()), anew(err)
}

// at does f, which changes nothing, with a fid of the file.
func (r *rootNode) at(ctx context.Context, f func(context.Context, *client.Fid) error) error {
	return r.g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		return c.At(ctx, r.path, func(fid *client.Fid) error { return f(ctx, fid) })
	})
}

// Space is that of the file system in the guest.
func (r *rootNode) Space(ctx context.Context) (sp fs.Space, err error) {
	err = r.at(ctx, func(ctx context.Context, fid *client.Fid) error {
		sp, err = fid.Space(ctx)
		return err
	})
	return sp, err
}

func (r *rootNode) Walk(ctx context.Context, name string) (fs.Node, error) {
	if err := fs.CheckName(name); err != nil {
		return nil, err
	}
	c := r.child(name)
	of, err := r.look(ctx, name)
	if err != nil {
		return nil, err
	}
	c.seen.Store(&sight{time.Now(), of})
	return c, nil
}

// look returns what the file called name is like: as the directory's listing
// had it, if that is fresh.
func (r *rootNode) look(ctx context.Context, name string) (fs.Described, error) {
	s, fresh := &r.g.sights, r.g.fresh()
	of, at, view := s.find(r.path, name, fresh, r.g.host)
	if view == stale {
		if err := r.describe(ctx, func([]fs.Described) {}); err == nil {
			of, at, view = s.find(r.path, name, fresh, r.g.host)
		}
		s.done(r.path) // after that: what was not learnt is not listed once more
	}
	if view == known {
		of.Stat = r.g.mark(of.Stat, at)
		return of, nil
	}
	st, err := r.g.stat(ctx, r.child(name).path)
	return fs.Described{Stat: r.g.mark(st, time.Now())}, anew(err)
}

// describe has told be told of the directory's files, and keeps them in sight.
func (r *rootNode) describe(ctx context.Context, told func([]fs.Described)) error {
	return r.g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		began, gen := time.Now(), r.g.sights.begin()
		list, err := c.Describe(ctx, r.path)
		if err == nil {
			r.g.sights.learn(r.path, list, began, gen, r.g.fresh())
			told(list)
		}
		return err
	})
}

func (r *rootNode) List(ctx context.Context) ([]fs.Entry, error) {
	var list []fs.Entry
	err := r.describe(ctx, func(all []fs.Described) {
		list = make([]fs.Entry, 0, len(all))
		for _, of := range all {
			list = append(list, fs.Entry{Name: of.Name, Mode: r.g.shown(of.Mode).Type(), Qid: r.g.number(of.Qid)})
		}
	})
	if !errors.Is(err, fs.ErrUnsupported) {
		return list, anew(err)
	}
	err = r.g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		list, err = c.List(ctx, r.path)
		return err
	})
	for i := range list {
		list[i].Mode, list[i].Qid = r.g.shown(list[i].Mode), r.g.number(list[i].Qid)
	}
	return list, err
}

func (r *rootNode) Open(ctx context.Context, flags int) (fs.Handle, error) {
	f, err := r.g.openFile(ctx, r.path, flags, false)
	if err != nil {
		return nil, anew(err)
	}
	return f, nil
}

// anew is the error of a file whose machine ended: a kernel that was to keep
// it for a while walks there anew, and may find another machine's.
func anew(err error) error {
	if IsGone(err) {
		return fmt.Errorf("%w: guest is gone", fs.ErrStale)
	}
	return err
}

// change does f with a fid of this directory, which is to change. Moot is the
// error of a change that has been made already.
func (r *rootNode) change(ctx context.Context, name string, moot error, f func(context.Context, *client.Fid) error) error {
	if err := fs.CheckName(name); err != nil {
		return err
	}
	defer r.g.sights.forget(r.child(name).path)
	return r.g.change(ctx, moot, func(ctx context.Context, c *client.Conn) error {
		return c.At(ctx, r.path, func(fid *client.Fid) error { return f(ctx, fid) })
	})
}

func (r *rootNode) Create(ctx context.Context, name string, flags int, perm os.FileMode) (fs.Node, fs.Handle, error) {
	c := r.child(name)
	f := &file{g: r.g, path: c.path, flags: flags &^ os.O_EXCL, opened: true, turn: make(chan struct{}, 1)}
	if err := fs.CheckName(name); err != nil {
		return nil, nil, err
	}
	defer r.g.sights.forget(c.path)
	err := r.g.change(ctx, nil, func(ctx context.Context, c *client.Conn) error {
		fid, err := c.Walk(ctx, r.path)
		if err != nil {
			return err
		}
		if err := fid.Create(ctx, name, flags, perm); err != nil {
			fid.Clunk()
			return err
		}
		f.fid, f.qid = fid, fid.Qid.Path
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	r.g.remember(f)
	return c, f, nil
}

func (r *rootNode) Mkdir(ctx context.Context, name string, perm os.FileMode) (fs.Node, error) {
	err := r.change(ctx, name, fs.ErrExist, func(ctx context.Context, dir *client.Fid) error {
		return dir.Mkdir(ctx, name, perm)
	})
	return r.child(name), err
}

func (r *rootNode) Remove(ctx context.Context, name string, dir bool) error {
	if err := r.goes(name); err != nil {
		return err
	}
	return r.change(ctx, name, fs.ErrNotExist, func(ctx context.Context, fid *client.Fid) error {
		return fid.Remove(ctx, name, dir)
	})
}

func (r *rootNode) Rename(ctx context.Context, name string, dst fs.Node, newname string) error {
	to, ok := fs.Inner(ctx, dst).(*rootNode)
	if !ok || to.g != r.g {
		return syscall.EXDEV
	}
	if err := errors.Join(fs.CheckName(newname), r.goes(name), to.goes(newname)); err != nil {
		return err
	}
	defer r.g.sights.forget(to.child(newname).path)
	err := r.change(ctx, name, fs.ErrNotExist, func(ctx context.Context, dir *client.Fid) error {
		return dir.Conn().At(ctx, to.path, func(newdir *client.Fid) error { return dir.Rename(ctx, name, newdir, newname) })
	})
	if err == nil {
		r.g.moved(r.child(name).path, to.child(newname).path)
	}
	return err
}

func (r *rootNode) Symlink(ctx context.Context, name, target string) (fs.Node, error) {
	if len(target) > 4096 {
		return nil, fmt.Errorf("%w: link target of %d bytes", fs.ErrTooLong, len(target))
	}
	err := r.change(ctx, name, fs.ErrExist, func(ctx context.Context, dir *client.Fid) error {
		return dir.Symlink(ctx, name, target)
	})
	return r.child(name), err
}

func (r *rootNode) Link(ctx context.Context, name string, target fs.Node) (fs.Node, error) {
	from, ok := target.(*rootNode)
	if !ok || from.g != r.g {
		return nil, syscall.EXDEV
	}
	err := r.change(ctx, name, fs.ErrExist, func(ctx context.Context, dir *client.Fid) error {
		return dir.Conn().At(ctx, from.path, func(fid *client.Fid) error { return dir.Link(ctx, name, fid) })
	})
	return r.child(name), err
}

func (r *rootNode) Readlink(ctx context.Context) (string, error) {
	last := len(r.path) - 1
	of, _, view := r.g.sights.find(r.path[:last], r.path[last], r.g.fresh(), false)
	if view == stale {
		r.g.sights.done(r.path[:last])
	}
	if view == known && of.Target != "" {
		return of.Target, nil
	}
	target := ""
	err := r.at(ctx, func(ctx context.Context, fid *client.Fid) (err error) {
		target, err = fid.Readlink(ctx)
		return err
	})
	return target, err
}

func (r *rootNode) Set(ctx context.Context, change fs.Change) error {
	if change == (fs.Change{}) {
		return nil
	}
	defer r.g.sights.forget(r.path)
	return r.g.change(ctx, nil, func(ctx context.Context, c *client.Conn) error {
		return c.At(ctx, r.path, func(fid *client.Fid) error { return fid.Set(ctx, change) })
	})
}
