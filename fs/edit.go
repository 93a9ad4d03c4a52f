package fs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
)

// maxStored is the length of the longest stored file of a row.
const maxStored = 1 << 20

// stored returns the text of a stored file.
func (n *rowNode[T]) stored(ctx context.Context) (string, error) {
	if n.t.isCut(n.qid(), false) {
		return "", nil
	}
	return n.row.Read(n.call(ctx))
}

// An editing is what is under way with a stored file: it is there while the
// file is open for writing, or truncated and not written since.
type editing struct {
	storeMu sync.Mutex // held while a text is stored

	// Tree.mu guards what follows.
	writers int // handles that can write
	cut     bool
}

// editing does f with what is under way with a stored file.
func (t *Tree[T]) editing(qid uint64, f func(*editing)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.edits[qid]
	if e == nil {
		e = &editing{}
		t.edits[qid] = e
	}
	f(e)
	if e.writers == 0 && !e.cut {
		delete(t.edits, qid)
	}
}

// isCut says whether a stored file was truncated and not written since, and
// forgets it if forget is set.
func (t *Tree[T]) isCut(qid uint64, forget bool) (cut bool) {
	t.editing(qid, func(e *editing) {
		cut = e.cut
		e.cut = cut && !forget
	})
	return cut
}

// Set takes a truncation of a stored file, which holds until the file is
// written; on anything else it does nothing, so that ">" works on a ctl.
func (n *rowNode[T]) Set(ctx context.Context, c Change) error {
	if n.row.Store != nil && c.Size != nil && *c.Size == 0 {
		if err := n.ready(ctx); err != nil {
			return n.fail(err)
		}
		n.t.editing(n.qid(), func(e *editing) { e.cut = true })
	}
	return nil
}

// ready says why a stored file cannot be written now: most programs look at
// the error of an open, and few at that of a close.
func (n *rowNode[T]) ready(ctx context.Context) error {
	if n.row.Ready == nil {
		return nil
	}
	return n.row.Ready(n.call(ctx))
}

// edit opens a stored file: its text is made at open and stored again, as a
// whole, when a client flushes, syncs or closes what it has written.
func (n *rowNode[T]) edit(ctx context.Context, flags int) (Handle, error) {
	writable := flags&(os.O_WRONLY|os.O_RDWR) != 0
	if writable {
		if err := n.ready(ctx); err != nil {
			return nil, err
		}
	}
	h := &editHandle[T]{n: n, append: flags&os.O_APPEND != 0, writable: writable}
	if writable {
		h.join()
	}
	text, err := n.stored(ctx)
	if err != nil && writable {
		h.leave()
	}
	if err != nil {
		return nil, err
	}
	h.text = []byte(text)
	if flags&os.O_TRUNC != 0 && h.writable {
		h.text, h.dirty = nil, true
	}
	return h, nil
}

// editHandle is an open stored file.
type editHandle[T any] struct {
	MadeUp
	n                *rowNode[T]
	of               *editing // what is under way with it, if it is writable
	append, writable bool

	mu    sync.Mutex // guards what follows
	text  []byte
	dirty bool
}

// join counts a handle that can write.
func (h *editHandle[T]) join() {
	h.n.t.editing(h.n.qid(), func(e *editing) { h.of, e.writers = e, e.writers+1 })
}

// leave counts the handle out, and says whether the file is left truncated.
func (h *editHandle[T]) leave() (cut bool) {
	h.n.t.editing(h.n.qid(), func(e *editing) {
		e.writers--
		cut = e.cut && e.writers == 0
	})
	return cut
}

func (h *editHandle[T]) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ReadText(string(h.text), p, off), nil
}

func (h *editHandle[T]) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.writable {
		return 0, ErrPermission
	}
	if h.n.t.isCut(h.n.qid(), true) { // by another way than open
		h.text = nil
	}
	if h.append {
		off = int64(len(h.text))
	}
	if off+int64(len(p)) > maxStored {
		return 0, fmt.Errorf("%w: at most %d bytes", ErrNoSpace, maxStored)
	}
	for int64(len(h.text)) < off+int64(len(p)) {
		h.text = append(h.text, 0)
	}
	copy(h.text[off:], p)
	h.dirty = true
	return len(p), nil
}

// Sync stores what was written, and says what is wrong with it: who syncs
// wants to know.
func (h *editHandle[T]) Sync(ctx context.Context) error {
	if err := h.Flush(ctx); err != nil || h.n.row.Check == nil {
		return err
	}
	return h.n.row.Check(h.n.call(ctx))
}

func (h *editHandle[T]) Flush(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty {
		return nil
	}
	h.dirty = false
	h.of.storeMu.Lock()
	defer h.of.storeMu.Unlock()
	return h.n.row.Store(h.n.call(ctx), string(h.text))
}

// Close stores what no flush has. A file that was truncated and closed with
// nothing written is empty; a flush does not say so yet, since a shell that
// moves a descriptor flushes too.
func (h *editHandle[T]) Close() error {
	ctx := context.Background()
	err := h.Flush(ctx)
	if h.writable {
		err = cmp.Or(err, h.empty(ctx))
	}
	return err
}

// empty counts the handle closed, and stores that the file is empty if it was
// truncated and nobody else is there to write it: the kernel tells of a close
// late, when the next may have truncated the file and not written it yet.
func (h *editHandle[T]) empty(ctx context.Context) error {
	h.of.storeMu.Lock()
	defer h.of.storeMu.Unlock()
	if !h.leave() {
		return nil
	}
	defer h.n.t.isCut(h.n.qid(), true) // not before: who opens it meanwhile finds it empty
	return h.n.row.Store(h.n.call(ctx), "")
}
