package ninep

import (
	"context"
	"os"
	"sync"

	"hutch/fs"
)

// lastErr is a file with the text of the last error that a session answered
// with. 9P2000.L carries a number only; a client attaches to errName for what
// it meant, and gets nobody else's.
type lastErr struct {
	fs.Refuse

	mu   sync.Mutex // guards text
	text string
}

// errName is the name to attach to.
const errName = "err"

// errQid is no file's of a tree: those have but 48 bits.
const errQid = 1 << 48

func (e *lastErr) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = fs.Text(err) + "\n"
}

func (e *lastErr) get() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text
}

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
	return textHandle(e.get()), nil
}

// textHandle is an open file of a text that does not change.
type textHandle string

func (h textHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return fs.ReadText(string(h), p, off), nil
}

func (textHandle) WriteAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

func (textHandle) Close() error { return nil }
