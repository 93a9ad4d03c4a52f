package ninep

import (
	"context"
	"os"

	"hutch/fs"
)

// lastErr is a file with the text of the last error that a session answered
// with. 9P2000.L carries a number only; a client attaches to errName for what
// it meant, and gets nobody else's.
type lastErr struct {
	fs.Refuse
	last fs.LastErr
}

// errName is the name to attach to.
const errName = "err"

// errQid is no file's of a tree: those have but 48 bits.
const errQid = 1 << 48

func (e *lastErr) Stat(context.Context) (fs.Stat, error) {
	return fs.Stat{
		Name: errName, Mode: 0o400, Qid: errQid, Nlink: 1,
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}, nil
}

func (e *lastErr) Open(_ context.Context, flags int) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR) != 0 {
		return nil, fs.ErrPermission
	}
	return fs.OpenText(e.last.Text()), nil
}
