package folder

import (
	"context"
	"errors"
	"io"
	"os"

	"hutch/fs"
)

// handle is an open regular file.
type handle struct {
	fs.MadeUp
	f      *os.File
	append bool
}

func (h *handle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	n, err := h.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (h *handle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	if h.append {
		fi, err := h.f.Stat()
		if err != nil {
			return 0, err
		}
		off = fi.Size()
	}
	return h.f.WriteAt(p, off)
}

func (h *handle) Stat(context.Context) (fs.Stat, error) {
	fi, err := h.f.Stat()
	if err != nil {
		return fs.Stat{}, err
	}
	return stat(fi), nil
}

func (h *handle) Sync(context.Context) error { return h.f.Sync() }
func (h *handle) Close() error               { return h.f.Close() }
