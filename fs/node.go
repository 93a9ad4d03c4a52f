// Package fs says what a served tree is made of: nodes, which are walked,
// listed and opened, and handles, which are read and written. The frontends
// (fs/ninep, fs/fuse) serve any Node and know nothing else; cmd/hutchd/tree builds
// hutch's tree of them, relay/agent the guest's.
//
// Blocking happens only in ReadAt and WriteAt of a Handle. Every other call
// answers promptly: from memory, from the host's disk, or within the time
// limit of the one who serves it.
package fs

import (
	"context"
	"io/fs"
	"time"
)

// Version is the version of hutch, all of whose programs have it.
const Version = "0.1"

// A Stat describes a file.
type Stat struct {
	Name  string
	Mode  fs.FileMode // type and permission bits
	Qid   uint64      // qid path and inode: one number, never reused for another file
	Vers  uint32      // qid version; 0 for made-up files, which no client may cache
	Size  uint64      // 0 for made-up files and directories, true for logs and stored files
	Nlink uint32
	UID   uint32
	GID   uint32
	Atime time.Time
	Mtime time.Time
	Ctime time.Time
	// Keep is how long a client may believe that the file is there and like
	// this, if others change it; 0 for made-up files: never.
	Keep time.Duration
	// Stays says that the name leads to this directory for as long as its parent
	// is there. What the directory is like may change.
	Stays bool
}

// An Entry is what listing a directory tells of one file in it.
type Entry struct {
	Name string
	Mode fs.FileMode // the type bits suffice
	Qid  uint64
}

// A Change asks for a change of attributes; nil fields stay as they are.
type Change struct {
	Size  *uint64
	Mode  *fs.FileMode
	UID   *uint32
	GID   *uint32
	Atime *time.Time
	Mtime *time.Time
}

// A Node is a file or directory. Names passed to it are single elements:
// frontends resolve "." and "..", and refuse the empty name and names with
// a slash or a NUL before they ask. All methods may be called concurrently.
type Node interface {
	Stat(ctx context.Context) (Stat, error)
	// Walk returns the file called name in this directory.
	Walk(ctx context.Context, name string) (Node, error)
	// List returns the directory's entries, sorted by name, without "." and "..".
	List(ctx context.Context) ([]Entry, error)
	// Open opens the file. Flags are os.O_RDONLY, O_WRONLY or O_RDWR with
	// O_TRUNC, O_APPEND and syscall.O_NONBLOCK; others are ignored.
	// A directory is not opened, only listed.
	Open(ctx context.Context, flags int) (Handle, error)
	// Create makes the file called name in this directory and opens it.
	// With os.O_EXCL in flags an existing file is refused, else it is opened.
	Create(ctx context.Context, name string, flags int, perm fs.FileMode) (Node, Handle, error)
	Mkdir(ctx context.Context, name string, perm fs.FileMode) (Node, error)
	// Remove removes the entry called name, which must be a directory
	// exactly if dir is set.
	Remove(ctx context.Context, name string, dir bool) error
	// Rename moves the entry called name to newname in the directory dst,
	// over what is there.
	Rename(ctx context.Context, name string, dst Node, newname string) error
	Symlink(ctx context.Context, name, target string) (Node, error)
	Link(ctx context.Context, name string, target Node) (Node, error)
	Readlink(ctx context.Context) (string, error)
	Set(ctx context.Context, c Change) error
}

// A Handle is an open file. ReadAt returns 0 and nil at the end of the file,
// and may return fewer bytes than asked for anywhere. ReadAt and WriteAt may
// block until ctx is done; what a cancelled read did not return stays for
// the next one. Calls may come concurrently. After Close none come, and those
// still under way have been cancelled.
type Handle interface {
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	WriteAt(ctx context.Context, p []byte, off int64) (int, error)
	// Stream says whether reads can block at the end. After a short read of a
	// stream a 9P server answers the exact continuation with 0 bytes, or Linux'
	// 9P client would wait for a full buffer.
	Stream() bool
	// Flush is called when a client closes a descriptor of the file. Its error
	// is the error of that close.
	Flush(ctx context.Context) error
	// Sync has on the disk what was written, where that means something.
	Sync(ctx context.Context) error
	// Stat describes the file after it was removed or renamed, where that is
	// known; else it fails.
	Stat(ctx context.Context) (Stat, error)
	Close() error
}

// A Pathed is a directory Node that knows its files by name only, and looks at
// them anew each time.
type Pathed interface {
	// At returns the file called name, which may not be there.
	At(name string) Node
}

// A HostDir is a directory Node that may be nothing but a folder of the host,
// with all below it. The FUSE frontend may hand it to the kernel then.
type HostDir interface {
	// HostDir returns the folder's absolute path; "" if there is more to it.
	HostDir() string
}

// Refuse implements the methods of Node that change a directory, each with
// the refusal that suits a tree of made-up files. Nodes embed it and
// override what they allow.
type Refuse struct{}

func (Refuse) Walk(context.Context, string) (Node, error) { return nil, ErrNotDir }
func (Refuse) List(context.Context) ([]Entry, error)      { return nil, ErrNotDir }
func (Refuse) Open(context.Context, int) (Handle, error)  { return nil, ErrIsDir }
func (Refuse) Remove(context.Context, string, bool) error { return ErrNotPermitted }
func (Refuse) Readlink(context.Context) (string, error)   { return "", ErrInvalid }
func (Refuse) Set(context.Context, Change) error          { return nil }
func (Refuse) Rename(context.Context, string, Node, string) error {
	return ErrNotPermitted
}
func (Refuse) Create(context.Context, string, int, fs.FileMode) (Node, Handle, error) {
	return nil, nil, ErrNotPermitted
}
func (Refuse) Mkdir(context.Context, string, fs.FileMode) (Node, error) {
	return nil, ErrNotPermitted
}
func (Refuse) Symlink(context.Context, string, string) (Node, error) {
	return nil, ErrNotPermitted
}
func (Refuse) Link(context.Context, string, Node) (Node, error) {
	return nil, ErrNotPermitted
}
