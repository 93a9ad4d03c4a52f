// Package replica copies folders of the host: by sharing the blocks of files
// where the file system can (reflinks), byte by byte where it cannot.
//
// A replica has what a folder has: modes, owners, times, extended attributes,
// hard links, symbolic links, holes, pipes and sockets, and with them what an
// overlay's upper layer notes of removed files. No link is followed, and
// nothing that changes in the folder meanwhile leads out of it: every name is
// looked up in its open folder.
//
// To copy a folder that is in use, Ahead copies what is there, as often as
// wanted. Then whoever writes is stopped, and Copy does what has changed since.
package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// A Replica is a copy in the making. Its methods are called one at a time,
// and none after one has failed.
type Replica struct {
	from, to string
	known    *entry // what there was at the last pass; nil before the first
	alone    bool   // files of it cannot share blocks with files of to
	base     string // an earlier replica
	then     record // of that
	took     time.Duration
}

// A Cost says what a replica holds and what it took to make it.
type Cost struct {
	Files   int           `json:"files"`             // all but folders
	Folders int           `json:"folders"`           // the top one included
	Bytes   int64         `json:"bytes"`             // the lengths of all files, one with several names once
	Shared  int64         `json:"shared"`            // of these, bytes that lie in blocks shared with the original
	Linked  int64         `json:"linked,omitempty"`  // bytes of files that an earlier replica has too
	Copied  int64         `json:"copied"`            // bytes that were copied; the rest are holes
	Skipped int           `json:"skipped,omitempty"` // devices and sockets that cannot be made here
	Time    time.Duration `json:"time"`
}

// New returns a replica to be made of the folder from in the folder to,
// which is not there yet. Both are on the host, and nobody else writes to to.
func New(from, to string) *Replica { return &Replica{from: from, to: to} }

// Ahead copies what has changed since the last pass, of a folder that may be
// in use. What is made is not a replica yet: it is a mixture of what was
// there at different times. Where much has changed while it was copied, that
// is copied again, as long as it gets less. Where folders are moved so much
// that they cannot be copied, all is left for Copy.
func (r *Replica) Ahead(ctx context.Context) error {
	most := int64(math.MaxInt64)
	for {
		p, err := r.pass(ctx, false, &Cost{})
		if err != nil || p.work < little || p.work > most/2 {
			return err
		}
		most = p.work
	}
}

// little is how much work is left for Copy, in bytes that are copied. A file
// is taken for as many as perFile.
const (
	little  = 8 << 20
	perFile = 32 << 10
)

// still copies what has changed since the last pass as Ahead does, and says
// whether that was nothing. Then the replica is complete, and what the folder
// was at one moment, between the two passes, although nobody was stopped.
func (r *Replica) still(ctx context.Context, c *Cost) (bool, error) {
	p := r.newPass(ctx, c)
	p.dressed = true
	err := p.timed()
	return err == nil && !p.changed, err
}

// Copy copies what has changed since the last pass, and makes the replica
// complete. Files that come and go meanwhile may be in it or not. If it fails,
// what it has made is left for the caller to remove.
func (r *Replica) Copy(ctx context.Context) (Cost, error) {
	var c Cost
	_, err := r.pass(ctx, true, &c)
	return c, err
}

// pass makes a pass, whose cost is added to c.
func (r *Replica) pass(ctx context.Context, last bool, c *Cost) (*pass, error) {
	p := r.newPass(ctx, c)
	p.last = last
	return p, p.timed()
}

// timed does the pass, and adds what all took until now to its cost.
func (p *pass) timed() error {
	began := time.Now()
	err := p.run()
	p.r.took += time.Since(began)
	p.cost.Time += p.r.took
	return err
}

func (r *Replica) newPass(ctx context.Context, c *Cost) *pass {
	return &pass{r: r, ctx: ctx, links: make(map[inode]string), cost: c}
}

// A pass is one walk over the folder.
type pass struct {
	r     *Replica
	ctx   context.Context
	last  bool
	links map[inode]string // where in the replica the files with several names are
	cost  *Cost
	work  int64 // what it did, see little

	dressed bool  // the folders get their attributes, although it is not the last
	changed bool  // it found something that the replica had not
	read    int64 // how much was compared, see compareMost
}

func (p *pass) run() error {
	now := time.Now()
	var st unix.Stat_t
	if err := unix.Lstat(p.r.from, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: p.r.from, Err: err}
	}
	fd, relock, err := p.open(unix.AT_FDCWD, p.r.from, &st, unix.O_DIRECTORY)
	if err != nil {
		return &os.PathError{Op: "open", Path: p.r.from, Err: err}
	}
	defer relock()
	from := &folder{file: os.NewFile(uintptr(fd), p.r.from)}
	defer from.close()
	if !p.last && !honest(fd) {
		p.changed = true
		return nil
	}
	old := p.r.known
	if old == nil {
		err = os.Mkdir(p.r.to, 0o700)
	} else if !superuser() {
		err = os.Chmod(p.r.to, 0o700)
	}
	if err != nil {
		return err
	}
	to, err := openTop(p.r.to)
	if err != nil {
		return err
	}
	defer to.close()
	kids, err := p.folder(from, to, old)
	if errors.Is(err, errMoved) && !p.last {
		return p.giveUp()
	}
	if err != nil {
		return err
	}
	s := stampOf(&st)
	p.changed = p.changed || old == nil || old.stamp != s
	p.r.known = &entry{stamp: s, sure: s.sure(now), clean: true, kids: kids}
	p.cost.Folders++
	if p.last || p.dressed {
		return dressFolder(from, to, &st)
	}
	return nil
}

// giveUp leaves all for the last pass, when nothing moves: a folder that is
// moved again and again cannot be copied before.
func (p *pass) giveUp() error {
	p.r.known, p.work, p.changed = nil, 0, true
	return Remove(p.r.to)
}

// maxDepth is how deep folders may lie in each other, and openDepth how many
// of those that a pass is in it has open: the others are opened again on the
// way up.
const (
	maxDepth  = 20000
	openDepth = 50
)

// A folder is a folder of the original or of the replica that a pass is in.
type folder struct {
	file *os.File // nil while the pass is far below
	up   *folder  // nil of the top
	base string   // its name in that
	is   inode
	deep int
}

func openTop(dir string) (*folder, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &folder{file: os.NewFile(uintptr(fd), dir)}, nil
}

func (f *folder) fd() int { return int(f.file.Fd()) }

func (f *folder) close() {
	if f.file != nil {
		f.file.Close()
	}
}

// path returns the path from the top, "" for that itself.
func (f *folder) path() string {
	var names []string
	for d := f; d.up != nil; d = d.up {
		names = append(names, d.base)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// name returns the path of an entry, from the top.
func (f *folder) name(entry string) string {
	if f.up == nil {
		return entry
	}
	return f.path() + "/" + entry
}

// within takes fd, the entry called name of f, as a folder.
func (f *folder) within(fd int, name string) (*folder, error) {
	d := &folder{file: os.NewFile(uintptr(fd), name), up: f, base: name, deep: f.deep + 1}
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && d.deep > maxDepth {
		err = fmt.Errorf("%w: %s: folders lie more than %d deep in each other", fs.ErrTooLong, fs.Shorten(d.path()), maxDepth)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	d.is = stampOf(&st).inode()
	if d.deep > openDepth {
		far := f
		for range openDepth - 1 {
			far = far.up
		}
		if far.up != nil && far.file != nil {
			far.file.Close()
			far.file = nil
		}
	}
	return d, nil
}

// leave closes f, and returns to the folder that it is in.
func (f *folder) leave() error {
	defer f.close()
	if f.up.file != nil {
		return nil
	}
	fd, err := unix.Openat(f.fd(), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError(f.up.path(), err)
	}
	f.up.file = os.NewFile(uintptr(fd), f.up.base)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || stampOf(&st).inode() != f.up.is {
		return pathError(f.path(), errMoved)
	}
	return nil
}
