package pack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// Limits bound what an archive may bring.
type Limits struct {
	Files int64        // members of folders
	Disk  int64        // bytes that work and layer may take, each file 1 KiB at least; 0: no limit
	Room  func() int64 // how many bytes can still be written; it is asked before each piece
}

// least is what a file takes at least, as package disk has it.
const least = 1 << 10

// An Extraction makes the files of an archive.
type Extraction struct {
	Dir    string // of the host, where they are made; it is there and empty
	Limits Limits
	Skip   func(part string) bool // parts that are read and not made
	// Ledger takes the table called name.
	Ledger func(name string, r io.Reader) error

	disk, files int64
	way         []level
	buf         []byte
}

// A level is an open folder that files are made in.
type level struct {
	name string
	dir  *os.File
	last string // the entry of it that came last: the next is behind it
	head *tar.Header
}

// Extract makes what a has. What it has made when it fails is the caller's to
// remove.
func (x *Extraction) Extract(ctx context.Context, a *Reader) error {
	fd, err := unix.Open(x.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: x.Dir, Err: err}
	}
	x.way = []level{{dir: os.NewFile(uintptr(fd), x.Dir)}}
	x.buf = make([]byte, 256<<10)
	a.tail.left = x.Limits.Room()
	defer func() {
		for _, l := range x.way {
			l.dir.Close()
		}
	}()
	for {
		h, err := a.next()
		if err == io.EOF {
			return x.leave(1)
		}
		if err == nil {
			err = x.member(ctx, h, a.tar)
		}
		if err != nil {
			return a.Blame(malformed(err))
		}
	}
}

func (x *Extraction) member(ctx context.Context, h *tar.Header, r io.Reader) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	parts, err := nameOf(h)
	if err != nil {
		return err
	}
	if err := x.take(parts[0], h); err != nil {
		return err
	}
	if x.Skip != nil && x.Skip(parts[0]) {
		return nil
	}
	r = piecemeal{r, x.Limits.Room}
	if parts[0] == "ledger" {
		table, ok := strings.CutSuffix(strings.Join(parts[1:], "/"), ".jsonl")
		if !ok || h.Typeflag != tar.TypeReg || h.PAXRecords[sparseRecord] != "" {
			return bad("unknown member %q", fs.Shorten(h.Name))
		}
		return x.Ledger(table, r)
	}
	if err := x.enter(parts); err != nil {
		return err
	}
	return told(h.Name, x.entry(ctx, parts, h, r))
}

// take counts a member.
func (x *Extraction) take(part string, h *tar.Header) error {
	if h.Size < 0 {
		return bad("%q has %d bytes", fs.Shorten(h.Name), h.Size)
	}
	x.files++
	if part == "work" || part == "layer" {
		x.disk += max(h.Size, least)
	}
	switch {
	case x.files > x.Limits.Files:
		return bad("it has more than %d files", x.Limits.Files)
	case x.Limits.Room() < max(h.Size, least):
		return errNoRoom
	case x.Limits.Disk > 0 && (x.disk > x.Limits.Disk || x.disk < 0):
		return fmt.Errorf("%w: archive has more than the %d bytes that its config's disk allows", fs.ErrNoSpace, x.Limits.Disk)
	}
	return nil
}

var errNoRoom = fmt.Errorf("%w: archive has more than there is room for", fs.ErrNoSpace)

// A piecemeal reader asks before each piece whether there is room for it.
type piecemeal struct {
	io.Reader
	room func() int64
}

func (p piecemeal) Read(b []byte) (int, error) {
	if p.room() < int64(len(b)) {
		return 0, errNoRoom
	}
	return p.Reader.Read(b)
}

// enter goes to the folder that the entry is in, which is the last one or one
// above it. So what was in those that it leaves is complete.
func (x *Extraction) enter(parts []string) error {
	n := 1
	for n < len(x.way) && n < len(parts) && x.way[n].name == parts[n-1] {
		n++
	}
	if n != len(parts) {
		return bad("%q is in no folder that stands before it", fs.Shorten(strings.Join(parts, "/")))
	}
	if err := x.leave(n); err != nil {
		return err
	}
	at, base := &x.way[n-1], parts[n-1]
	switch {
	case base == at.last:
		return bad("%q comes twice", fs.Shorten(strings.Join(parts, "/")))
	case n > 1 && base < at.last: // of parts Reader.next has seen to their order
		return bad("%q stands behind %q", fs.Shorten(strings.Join(parts, "/")), fs.Shorten(at.last))
	}
	at.last = base
	return nil
}

// leave gives folders their attributes, until there are n on the way.
func (x *Extraction) leave(n int) error {
	for len(x.way) > n {
		l := x.way[len(x.way)-1]
		x.way = x.way[:len(x.way)-1]
		err := setAttributes(l.dir, l.head)
		l.dir.Close()
		if err == nil {
			err = dress(x.way[len(x.way)-1].dir, l.name, l.head)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", fs.Shorten(l.head.Name), err)
		}
	}
	return nil
}

func (x *Extraction) entry(ctx context.Context, parts []string, h *tar.Header, r io.Reader) error {
	dir, base := x.way[len(x.way)-1].dir, parts[len(parts)-1]
	part := parts[0]
	if len(parts) == 1 && h.Typeflag != tar.TypeDir {
		return bad("%q is no folder", part)
	}
	if !fits(parts, h.Typeflag) {
		return bad("%q is not what %s has", fs.Shorten(h.Name), part)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return x.folder(dir, base, h)
	case tar.TypeReg:
		return x.regular(ctx, dir, base, h, r)
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0 {
			return bad("link %q to %q", fs.Shorten(h.Name), fs.Shorten(h.Linkname))
		}
		if err := unix.Symlinkat(h.Linkname, int(dir.Fd()), base); err != nil {
			return err
		}
	case tar.TypeLink:
		return x.link(dir, base, part, h)
	case tar.TypeFifo:
		if err := mkfifo(int(dir.Fd()), base); err != nil {
			return err
		}
	case tar.TypeChar:
		if !inLayer(h.Name) || h.Devmajor != 0 || h.Devminor != 0 {
			return bad("%q is a device", fs.Shorten(h.Name))
		}
		if err := whiteout(int(dir.Fd()), base); err != nil {
			return err
		}
	default:
		return bad("%q is of the kind %q", fs.Shorten(h.Name), h.Typeflag)
	}
	return dress(dir, base, h)
}

// fits says whether a part can have an entry of a kind.
func fits(parts []string, kind byte) bool {
	n, file, dir := len(parts), kind == tar.TypeReg, kind == tar.TypeDir
	switch parts[0] {
	case "env", "log", "pins":
		return n == 1 || n == 2 && file
	case "saved":
		return dir || file
	case "snap":
		return n <= 2 && dir || n == 3 && (file && parts[2] == "record.json" || dir && (parts[2] == "work" || parts[2] == "layer")) || n > 3
	}
	return true
}

func (x *Extraction) folder(dir *os.File, base string, h *tar.Header) error {
	if err := unix.Mkdirat(int(dir.Fd()), base, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	x.way = append(x.way, level{name: base, dir: os.NewFile(uintptr(fd), base), head: h})
	return nil
}

func (x *Extraction) regular(ctx context.Context, dir *os.File, base string, h *tar.Header, r io.Reader) error {
	size, pieces := h.Size, []extent{{0, h.Size}}
	if text := h.PAXRecords[sparseRecord]; text != "" {
		var err error
		if size, pieces, err = parseExtents(text, h.Size); err != nil {
			return err
		}
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	for _, e := range pieces {
		if _, err := copying(ctx, io.NewOffsetWriter(f, e.off), r, e.len, x.buf); err != nil {
			return err
		}
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := dress(dir, base, h); err != nil { // after which attributes are: the owner takes them away
		return err
	}
	return setAttributes(f, h)
}

// link makes a further name of a file that came before in the same part.
func (x *Extraction) link(dir *os.File, base, part string, h *tar.Header) error {
	to, err := nameOf(&tar.Header{Name: h.Linkname})
	if err != nil || to[0] != part || len(to) < 2 {
		return bad("hard link %q to %q", fs.Shorten(h.Name), fs.Shorten(h.Linkname))
	}
	at, err := unix.Dup(int(x.way[0].dir.Fd()))
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	for _, name := range to[:len(to)-1] {
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EACCES) {
			next, err = openLocked(at, name)
		}
		if err != nil {
			return bad("hard link %q to %q: %w", fs.Shorten(h.Name), fs.Shorten(h.Linkname), err)
		}
		unix.Close(at)
		at = next
	}
	var st unix.Stat_t
	err = unix.Fstatat(at, to[len(to)-1], &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = fs.ErrIsDir
	}
	if err == nil {
		err = unix.Linkat(at, to[len(to)-1], int(dir.Fd()), base, 0)
	}
	if err != nil {
		return bad("hard link %q to %q: %w", fs.Shorten(h.Name), fs.Shorten(h.Linkname), err)
	}
	return nil
}

// openLocked opens a folder of our own whose mode forbids it, and which has that
// again at once.
func openLocked(dir int, name string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	f, relock, err := entry{name, dir, name, &st}.open(unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer relock()
	defer f.Close()
	return unix.Dup(int(f.Fd()))
}

// dress gives an entry its owner, times and mode. Owners are kept by the superuser
// alone, and setuid bits in layers only, where they mean something to the guest.
func dress(dir *os.File, base string, h *tar.Header) error {
	if os.Geteuid() == 0 {
		err := unix.Fchownat(int(dir.Fd()), base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) { // where users are mapped, not all exist
			return err
		}
	}
	if h.Typeflag != tar.TypeSymlink {
		mode := uint32(h.Mode) & 0o7777
		if os.Geteuid() != 0 || !inLayer(h.Name) {
			mode &^= 0o6000
		}
		if err := unix.Fchmodat(int(dir.Fd()), base, mode, 0); err != nil {
			return err
		}
	}
	t := timespec(h.ModTime)
	return unix.UtimesNanoAt(int(dir.Fd()), base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// timespec returns t, or the beginning of time where t is none that files can have.
func timespec(t time.Time) unix.Timespec {
	if t.Year() < 1970 || t.Year() > 2261 {
		t = time.Unix(0, 0)
	}
	return unix.NsecToTimespec(t.UnixNano())
}
