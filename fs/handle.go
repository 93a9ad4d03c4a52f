package fs

import "context"

// MadeUp implements the methods of Handle for a made-up file that is read only:
// all but ReadAt. Handles embed it and override what they do otherwise.
type MadeUp struct{}

func (MadeUp) WriteAt(context.Context, []byte, int64) (int, error) { return 0, ErrPermission }
func (MadeUp) Stream() bool                                        { return false }
func (MadeUp) Flush(context.Context) error                         { return nil }
func (MadeUp) Sync(context.Context) error                          { return nil }
func (MadeUp) Stat(context.Context) (Stat, error)                  { return Stat{}, ErrUnsupported }
func (MadeUp) Close() error                                        { return nil }

// OpenText returns an open file of a text that does not change.
func OpenText(text string) Handle { return &textHandle{text: text} }

// textHandle is an open file of text: a snapshot to read, messages to write.
type textHandle struct {
	MadeUp
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
