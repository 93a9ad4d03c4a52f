package guest

import (
	"context"

	"hutch/fs"
)

// Cons opens the guest's console. It begins with a little of what was said
// last.
func (g *Guest) Cons(ctx context.Context, flags int) (fs.Handle, error) {
	f, err := g.openFile(ctx, []string{"cons"}, flags, true)
	if err != nil {
		return nil, err
	}
	st, err := g.stat(ctx, f.path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &consHandle{file: f, begun: max(0, int64(st.Size)-consRecent)}, nil
}

const consRecent = 4 << 10

// A consHandle is the open console. The guest counts its bytes from the
// first there ever was, the reader from where it came in.
type consHandle struct {
	*file
	begun int64
}

func (h *consHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return h.file.ReadAt(ctx, p, h.begun+off)
}
