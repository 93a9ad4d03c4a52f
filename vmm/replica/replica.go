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
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/node"
)

// A Replica is a copy in the making. Its methods are called one at a time,
// and none after one has failed.
type Replica struct {
	from, to string
	known    *entry // what there was at the last pass; nil before the first
	alone    bool   // files of it cannot share blocks with files of to
	base     string // an earlier replica
	then     Record // of that
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

// Add adds to c the cost of another replica.
func (c *Cost) Add(d Cost) {
	c.Files += d.Files
	c.Folders += d.Folders
	c.Bytes += d.Bytes
	c.Shared += d.Shared
	c.Linked += d.Linked
	c.Copied += d.Copied
	c.Skipped += d.Skipped
	c.Time += d.Time
}

// New returns a replica to be made of the folder from in the folder to,
// which is not there yet. Both are on the host, and nobody else writes to to.
func New(from, to string) *Replica { return &Replica{from: from, to: to} }

// Copy returns a replica of the folder from, in the new folder to.
// If it fails, what it has made is left for the caller to remove.
func Copy(ctx context.Context, from, to string) (Cost, error) { return New(from, to).Copy(ctx) }

// Ahead copies what has changed since the last pass, of a folder that may be
// in use. What is made is not a replica yet: it is a mixture of what was
// there at different times. Where much has changed while it was copied, that
// is copied again, as long as it gets less.
func (r *Replica) Ahead(ctx context.Context) error {
	most := int64(math.MaxInt64)
	for {
		p, err := r.pass(ctx, false)
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

// Copy copies what has changed since the last pass, and makes the replica
// complete. Files that come and go meanwhile may be in it or not.
func (r *Replica) Copy(ctx context.Context) (Cost, error) {
	p, err := r.pass(ctx, true)
	return p.cost, err
}

func (r *Replica) pass(ctx context.Context, last bool) (*pass, error) {
	began := time.Now()
	p := &pass{r: r, ctx: ctx, last: last, links: make(map[inode]string)}
	err := p.run()
	r.took += time.Since(began)
	p.cost.Time = r.took
	return p, err
}

// A pass is one walk over the folder.
type pass struct {
	r     *Replica
	ctx   context.Context
	last  bool
	links map[inode]string // where in the replica the files with several names are
	cost  Cost
	work  int64 // what it did, see little
}

func (p *pass) run() error {
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
		return nil
	}
	old := p.r.known
	if old == nil {
		if err := os.Mkdir(p.r.to, 0o700); err != nil {
			return err
		}
	}
	to, err := openTop(p.r.to)
	if err != nil {
		return err
	}
	defer to.close()
	kids, err := p.folder(from, to, old)
	if err != nil {
		return err
	}
	p.r.known = &entry{kids: kids}
	p.cost.Folders++
	if p.last {
		return p.dress(from, to, &st)
	}
	return nil
}

// maxDepth is how deep folders may lie in each other: each takes two
// descriptors while what is in it is copied.
const maxDepth = 400

// A folder is an open folder of the original or of the replica.
type folder struct {
	file *os.File
	path string // from the top, "" for that itself
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
func (f *folder) close()  { f.file.Close() }

// name returns the path of an entry, from the top.
func (f *folder) name(entry string) string {
	if f.path == "" {
		return entry
	}
	return f.path + "/" + entry
}

// within takes fd, the entry called name of f, as a folder.
func (f *folder) within(fd int, name string) (*folder, error) {
	d := &folder{file: os.NewFile(uintptr(fd), name), path: f.name(name), deep: f.deep + 1}
	if d.deep > maxDepth {
		d.close()
		return nil, fmt.Errorf("%w: %s: folders lie more than %d deep in each other", node.ErrTooLong, shorten(d.path), maxDepth)
	}
	return d, nil
}

func shorten(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
