package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"hutch/fs"
)

// Root returns the root of the guest's file system.
func (g *Guest) Root() fs.Node { return &rootNode{g: g, path: []string{"root"}} }

// rootNode is a file of the guest, known by its path. Names that a guest
// gives and no file can have are hidden, and its qids are told from those of
// other guests.
type rootNode struct {
	g    *Guest
	path []string
	seen atomic.Pointer[sight] // what the walk saw, until it is asked for
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
	return &rootNode{g: r.g, path: append(r.path[:len(r.path):len(r.path)], name)}
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

// Space is that of the file system in the guest.
func (r *rootNode) Space(ctx context.Context) (sp fs.Space, err error) {
	err = r.g.try(ctx, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, r.path)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		sp, err = n.space(ctx, fid)
		return err
	})
	return sp, err
}

func (r *rootNode) Walk(ctx context.Context, name string) (fs.Node, error) {
	if err := checkName(name); err != nil {
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
	return r.g.try(ctx, func(ctx context.Context, n *conn) error {
		began, gen := time.Now(), r.g.sights.begin()
		list, err := n.describe(ctx, r.path)
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
	err = r.g.try(ctx, func(ctx context.Context, n *conn) (err error) {
		list, err = n.list(ctx, r.path)
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
func (r *rootNode) change(ctx context.Context, name string, moot error, f func(context.Context, *conn, uint32) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	defer r.g.sights.forget(r.child(name).path)
	return r.g.change(ctx, moot, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, r.path)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		return f(ctx, n, fid)
	})
}

func (r *rootNode) Create(ctx context.Context, name string, flags int, perm os.FileMode) (fs.Node, fs.Handle, error) {
	c := r.child(name)
	f := &file{g: r.g, path: c.path, flags: linuxFlags(flags &^ os.O_EXCL), opened: true, turn: make(chan struct{}, 1)}
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	defer r.g.sights.forget(c.path)
	err := r.g.change(ctx, nil, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, r.path)
		if err != nil {
			return err
		}
		a, err := n.call(ctx, tlcreate, func(b []byte) []byte {
			b = put32(putString(put32(b, fid), name), linuxFlags(flags))
			return put32(put32(b, linuxMode(perm)), 0)
		})
		if err != nil {
			n.clunk(fid)
			return err
		}
		f.n, f.fid, f.qid = n, fid, a.qid()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	r.g.remember(f)
	return c, f, nil
}

func (r *rootNode) Mkdir(ctx context.Context, name string, perm os.FileMode) (fs.Node, error) {
	err := r.change(ctx, name, fs.ErrExist, func(ctx context.Context, n *conn, dir uint32) error {
		return n.mkdir(ctx, dir, name, linuxMode(perm))
	})
	return r.child(name), err
}

func (r *rootNode) Remove(ctx context.Context, name string, dir bool) error {
	return r.change(ctx, name, fs.ErrNotExist, func(ctx context.Context, n *conn, fid uint32) error {
		return n.unlink(ctx, fid, name, dir)
	})
}

func (r *rootNode) Rename(ctx context.Context, name string, dst fs.Node, newname string) error {
	to, ok := fs.Inner(ctx, dst).(*rootNode)
	if !ok || to.g != r.g {
		return syscall.EXDEV
	}
	if err := checkName(newname); err != nil {
		return err
	}
	defer r.g.sights.forget(to.child(newname).path)
	err := r.change(ctx, name, fs.ErrNotExist, func(ctx context.Context, n *conn, dir uint32) error {
		newdir, err := n.walk(ctx, to.path)
		if err != nil {
			return err
		}
		defer n.clunk(newdir)
		_, err = n.call(ctx, trenameat, func(b []byte) []byte {
			return putString(put32(putString(put32(b, dir), name), newdir), newname)
		})
		return err
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
	err := r.change(ctx, name, fs.ErrExist, func(ctx context.Context, n *conn, dir uint32) error {
		_, err := n.call(ctx, tsymlink, func(b []byte) []byte {
			return put32(putString(putString(put32(b, dir), name), target), 0)
		})
		return err
	})
	return r.child(name), err
}

func (r *rootNode) Link(ctx context.Context, name string, target fs.Node) (fs.Node, error) {
	from, ok := target.(*rootNode)
	if !ok || from.g != r.g {
		return nil, syscall.EXDEV
	}
	err := r.change(ctx, name, fs.ErrExist, func(ctx context.Context, n *conn, dir uint32) error {
		fid, err := n.walk(ctx, from.path)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		_, err = n.call(ctx, tlink, func(b []byte) []byte { return putString(put32(put32(b, dir), fid), name) })
		return err
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
	err := r.g.try(ctx, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, r.path)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		a, err := n.call(ctx, treadlink, func(b []byte) []byte { return put32(b, fid) })
		if err != nil {
			return err
		}
		if target = a.str(); a.end() != nil {
			return n.liar("malformed link")
		}
		return nil
	})
	return target, err
}

// Bits of the mask of Tsetattr.
const (
	setMode = 1 << iota
	setUID
	setGID
	setSize
	setAtime
	setMtime
	setCtime
	setAtimeTo
	setMtimeTo
)

func (r *rootNode) Set(ctx context.Context, c fs.Change) error {
	mask, fields := attrs(c)
	if mask == 0 {
		return nil
	}
	defer r.g.sights.forget(r.path)
	return r.g.change(ctx, nil, func(ctx context.Context, n *conn) error {
		fid, err := n.walk(ctx, r.path)
		if err != nil {
			return err
		}
		defer n.clunk(fid)
		_, err = n.call(ctx, tsetattr, func(b []byte) []byte {
			return append(put32(put32(b, fid), mask), fields...)
		})
		return err
	})
}

// attrs returns the mask and the fields of a Tsetattr.
func attrs(c fs.Change) (uint32, []byte) {
	var mask, mode, uid, gid uint32
	var size uint64
	var atime, mtime time.Time
	if c.Mode != nil {
		mask, mode = mask|setMode, linuxMode(*c.Mode)
	}
	if c.UID != nil {
		mask, uid = mask|setUID, *c.UID
	}
	if c.GID != nil {
		mask, gid = mask|setGID, *c.GID
	}
	if c.Size != nil {
		mask, size = mask|setSize, *c.Size
	}
	if c.Atime != nil {
		mask, atime = mask|setAtime|setAtimeTo, *c.Atime
	}
	if c.Mtime != nil {
		mask, mtime = mask|setMtime|setMtimeTo, *c.Mtime
	}
	b := put64(put32(put32(put32(nil, mode), uid), gid), size)
	return mask, putTime(putTime(b, atime), mtime)
}
