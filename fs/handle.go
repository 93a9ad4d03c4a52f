package fs

import "context"

// A Flusher is a Handle that wants to know when a client closes a
// descriptor of it. Its error is the error of that close.
type Flusher interface {
	Flush(ctx context.Context) error
}

// textHandle is an open file of text: a snapshot to read, messages to write.
type textHandle struct {
	text    string
	message *Writer
}

func (h *textHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return ReadText(h.text, p, off), nil
}

// ReadText copies what text has at off into p.
func ReadText(text string, p []byte, off int64) int {
	if off < 0 || off >= int64(len(text)) {
		return 0
	}
	return copy(p, text[off:])
}

func (h *textHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if h.message == nil {
		return 0, ErrPermission
	}
	return h.message.Write(ctx, p)
}

func (h *textHandle) Flush(ctx context.Context) error {
	if h.message == nil {
		return nil
	}
	return h.message.Flush(ctx)
}

func (h *textHandle) Close() error { return nil }
