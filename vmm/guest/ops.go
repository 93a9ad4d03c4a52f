package guest

import (
	"context"
	"fmt"
	"math"
	"os"
	"syscall"

	"hutch/fs"
)

// Flags of Tlopen and Tlcreate: Linux' numbers, whatever the system.
const (
	oRdonly    = 0
	oWronly    = 1
	oExcl      = 0o200
	oTrunc     = 0o1000
	oAppend    = 0o2000
	oNonblock  = 0o4000
	oDirectory = 0o200000
)

// linuxFlags returns Linux' flags for those of fs.Node.
func linuxFlags(flags int) uint32 {
	f := uint32(flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR))
	for _, p := range [...]struct {
		from int
		to   uint32
	}{
		{os.O_EXCL, oExcl}, {os.O_TRUNC, oTrunc}, {os.O_APPEND, oAppend}, {syscall.O_NONBLOCK, oNonblock},
	} {
		if flags&p.from != 0 {
			f |= p.to
		}
	}
	return f
}

// walk returns a new fid for the file at path.
func (n *conn) walk(ctx context.Context, path []string) (uint32, error) {
	fid := n.newFid()
	from := uint32(rootFid)
	for {
		part := path[:min(len(path), maxWalk)]
		path = path[len(part):]
		if err := n.step(ctx, from, fid, part); err != nil {
			n.giveUp(fid, from == fid)
			return 0, err
		}
		from = fid
		if len(path) == 0 {
			return fid, nil
		}
	}
}

// step walks from one fid to a new one, or on with the same.
func (n *conn) step(ctx context.Context, from, to uint32, names []string) error {
	r, err := n.call(ctx, twalk, func(b []byte) []byte {
		b = put16(put32(put32(b, from), to), uint16(len(names)))
		for _, name := range names {
			b = putString(b, name)
		}
		return b
	})
	if err != nil {
		return err
	}
	got := int(r.u16())
	if len(r.b) != got*13 || got > len(names) {
		return n.liar("a walk of %d names gave %d", len(names), got)
	}
	if got < len(names) {
		return fs.ErrNotExist
	}
	return nil
}

// giveUp gives back a fid that was not made, or was.
func (n *conn) giveUp(fid uint32, made bool) {
	if made {
		n.clunk(fid)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fids = append(n.fids, fid)
}

// open returns a fid of path, open, and the file's qid.
func (n *conn) open(ctx context.Context, path []string, flags uint32) (uint32, uint64, error) {
	fid, err := n.walk(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	r, err := n.call(ctx, tlopen, func(b []byte) []byte { return put32(put32(b, fid), flags) })
	if err != nil {
		n.clunk(fid)
		return 0, 0, err
	}
	return fid, r.qid(), nil
}

// execs returns the fid of the directory of execs, which is kept.
func (n *conn) execs(ctx context.Context) (uint32, error) {
	n.mu.Lock()
	fid := n.exec
	n.mu.Unlock()
	if fid != 0 {
		return fid, nil
	}
	fid, err := n.walk(ctx, []string{"exec"})
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	kept := n.exec
	if kept == 0 {
		n.exec, kept = fid, fid
	}
	n.mu.Unlock()
	if kept != fid { // another was faster
		n.clunk(fid)
	}
	return kept, nil
}

func (n *conn) mkdir(ctx context.Context, dir uint32, name string, perm uint32) error {
	_, err := n.call(ctx, tmkdir, func(b []byte) []byte {
		return put32(put32(putString(put32(b, dir), name), perm), 0)
	})
	return err
}

func (n *conn) unlink(ctx context.Context, dir uint32, name string, isDir bool) error {
	flags := uint32(0)
	if isDir {
		flags = removeIt
	}
	_, err := n.call(ctx, tunlinkat, func(b []byte) []byte { return put32(putString(put32(b, dir), name), flags) })
	return err
}

// A caller makes a request: call or block.
type caller func(context.Context, uint8, func([]byte) []byte) (reply, error)

// readAt reads what fits into p and one message, and returns how much it
// asked for and how much came. It does not ask for avoid bytes but for one
// more, of which there may be no room in p, or one less.
func (n *conn) readAt(ctx context.Context, do caller, fid uint32, p []byte, off int64, avoid int) (asked, got int, err error) {
	asked = min(len(p), int(n.msize)-readLen)
	switch {
	case asked != avoid:
	case asked < int(n.msize)-readLen:
		asked++
	default:
		asked--
	}
	r, err := do(ctx, tread, func(b []byte) []byte {
		return put32(put64(put32(b, fid), uint64(off)), uint32(asked))
	})
	if err != nil {
		return 0, 0, err
	}
	if got := r.u32(); r.bad || int64(got) != int64(len(r.b)) || len(r.b) > asked {
		return 0, 0, n.liar("a read of %d bytes gave %d", asked, got)
	}
	copy(p, r.b)
	return asked, len(r.b), nil
}

// writeAt writes what fits into one message.
func (n *conn) writeAt(ctx context.Context, do caller, fid uint32, p []byte, off int64) (int, error) {
	p = p[:min(len(p), int(n.msize)-writeLen)]
	r, err := do(ctx, twrite, func(b []byte) []byte {
		b = put32(put64(put32(b, fid), uint64(off)), uint32(len(p)))
		return append(b, p...)
	})
	if err != nil {
		return 0, err
	}
	got := r.u32()
	if r.end() != nil || int64(got) > int64(len(p)) {
		return 0, n.liar("a write of %d bytes took %d", len(p), got)
	}
	return int(got), nil
}

// sync has what was written to fid taken and made durable.
func (n *conn) sync(ctx context.Context, fid uint32) error {
	_, err := n.call(ctx, tfsync, func(b []byte) []byte { return put32(put32(b, fid), 0) })
	return err
}

// writeMessage writes one control message.
func (n *conn) writeMessage(ctx context.Context, do caller, fid uint32, message string) error {
	p := []byte(message + "\n")
	for len(p) > 0 {
		want := min(len(p), int(n.size())-writeLen)
		got, err := n.writeAt(ctx, do, fid, p, 0)
		switch {
		case err != nil:
			return err
		case got != want:
			return fmt.Errorf("%w: guest took %d of %d bytes", fs.ErrIO, got, want)
		}
		p = p[got:]
	}
	return nil
}

// fold makes a guest's qid one of 48 bits.
func fold(qid uint64) uint64 {
	return (qid ^ qid>>48*0x9e3779b97f) & (1<<48 - 1)
}

// typeOf returns the type in a mode of Linux.
func typeOf(mode uint32) os.FileMode {
	switch mode & 0o170000 {
	case 0o040000:
		return os.ModeDir
	case 0o100000:
		return 0
	case 0o120000:
		return os.ModeSymlink
	case 0o010000:
		return os.ModeNamedPipe
	case 0o140000:
		return os.ModeSocket
	case 0o020000:
		return os.ModeDevice | os.ModeCharDevice
	case 0o060000:
		return os.ModeDevice
	}
	return os.ModeIrregular
}

var specialBits = [...]struct {
	linux uint32
	mode  os.FileMode
}{{0o4000, os.ModeSetuid}, {0o2000, os.ModeSetgid}, {0o1000, os.ModeSticky}}

func modeOf(m uint32) os.FileMode {
	mode := typeOf(m) | os.FileMode(m&0o777)
	for _, b := range specialBits {
		if m&b.linux != 0 {
			mode |= b.mode
		}
	}
	return mode
}

// linuxMode returns the permissions of a mode as Linux has them.
func linuxMode(mode os.FileMode) uint32 {
	m := uint32(mode.Perm())
	for _, b := range specialBits {
		if mode&b.mode != 0 {
			m |= b.linux
		}
	}
	return m
}

// stat asks for the attributes of a fid.
func (n *conn) stat(ctx context.Context, fid uint32, name string) (fs.Stat, error) {
	r, err := n.call(ctx, tgetattr, func(b []byte) []byte { return put64(put32(b, fid), allAttrs) })
	if err != nil {
		return fs.Stat{}, err
	}
	st := r.stat(name)
	if r.end() != nil {
		return fs.Stat{}, n.liar("malformed attributes")
	}
	return st, nil
}

// stat takes the attributes of the file called name.
func (r *reply) stat(name string) fs.Stat {
	r.u64() // what is valid: we take what there is
	st := fs.Stat{Name: name, Qid: fold(r.qid())}
	st.Mode, st.UID, st.GID = modeOf(r.u32()), r.u32(), r.u32()
	st.Nlink = uint32(min(r.u64(), math.MaxInt32))
	r.u64() // rdev
	st.Size = min(r.u64(), math.MaxInt64)
	r.u64() // block size
	r.u64() // blocks
	st.Atime, st.Mtime, st.Ctime = r.time(), r.time(), r.time()
	r.take(16 + 16) // btime, generation, version
	return st
}

func (n *conn) space(ctx context.Context, fid uint32) (fs.Space, error) {
	r, err := n.call(ctx, tstatfs, func(b []byte) []byte { return put32(b, fid) })
	if err != nil {
		return fs.Space{}, err
	}
	r.u32() // the kind of file system
	sp := fs.Space{Block: r.u32(), Blocks: r.u64(), Free: r.u64(), Avail: r.u64(), Files: r.u64(), FilesFree: r.u64()}
	r.take(8 + 4) // its number, and how long names may be
	if r.end() != nil {
		return fs.Space{}, n.liar("malformed file system")
	}
	return sp, nil
}
