package fs

import (
	"context"
	"fmt"
	"strings"
)

// MaxMessage is the length of the longest control message: less than what a
// kernel takes as the arguments of a program.
const MaxMessage = 1 << 20

// A Writer cuts what is written into messages and passes each, without the
// newline that ends it, to a function. A message may come in pieces: what is
// not ended by a newline waits for the rest, and is taken as it is when the
// file is closed.
//
// Messages of one open file are done in order. A writer that gives up
// waiting does not stop the work; if it then writes the same bytes again, as
// programs do that restart an interrupted system call, it waits for the work
// that is under way, and gets its result.
type Writer struct {
	do     func(ctx context.Context, message string) error
	admits func(part string) bool // nil: any
	max    int
	quoted bool // a message ends at a newline outside quotes only
	joins  bool // a write outlives its writer

	turn   chan struct{} // holds a token: whoever has it uses what follows
	quotes quotes        // of part
	part   []byte        // of a message
	bad    error         // why the message under way will not be done
	left   *write        // what a writer gave up waiting for
	failed *write        // the end of a message that came in pieces
}

// A write is a write under way, and what came of it once done is closed.
type write struct {
	text string
	done chan struct{}
	err  error
}

// NewWriter returns a Writer that passes messages to do. They are those of a
// table of verbs, or if that is nil lines of quoted words.
func NewWriter[T any](verbs []Verb[T], do func(ctx context.Context, message string) error) *Writer {
	w := &Writer{do: do, max: MaxMessage, quoted: true, joins: true, turn: make(chan struct{}, 1)}
	if verbs != nil {
		w.do = hinting(verbs, do)
		w.admits = func(part string) bool { return Admits(verbs, part) }
		w.quotes.of = func(name string) place { return argsOf(verbs, name) }
	}
	return w
}

// NewLongWriter returns a Writer of lines of up to max bytes. The work of a write
// ends with its context. That of Complete does not: do has to end it when the
// file is closed.
func NewLongWriter(do func(ctx context.Context, message string) error, max int) *Writer {
	return &Writer{do: do, max: max, turn: make(chan struct{}, 1)}
}

// Write takes p whole, or returns the error of the first message that
// failed; the messages after it are not done.
func (w *Writer) Write(ctx context.Context, p []byte) (int, error) {
	text := string(p)
	if err := w.use(ctx, text, w.joins, func(ctx context.Context) error { return w.take(ctx, text) }); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush does the message that had no newline.
func (w *Writer) Flush(ctx context.Context) error { return w.flush(ctx, w.joins) }

func (w *Writer) flush(ctx context.Context, joins bool) error {
	return w.use(ctx, "", joins, func(ctx context.Context) error {
		m, bad := w.end()
		if m == "" || bad != nil {
			return nil
		}
		return w.do(ctx, m)
	})
}

// Complete does the message that had no newline, if there is one: whoever
// reads the answer on the same open file has nothing to add to it. A reader that
// gives up waiting does not stop the work, and waits for it when it reads again.
func (w *Writer) Complete(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
	default: // whose message is under way is not at its end
		return nil
	}
	completes := w.left == nil && len(w.part) > 0 || w.left != nil && w.left.text == ""
	<-w.turn
	if !completes {
		return nil
	}
	return w.flush(ctx, true)
}

// use does f, which is the write of text, when it is its turn. What joins goes
// on without its writer.
func (w *Writer) use(ctx context.Context, text string, joins bool, f func(context.Context) error) error {
	select {
	case w.turn <- struct{}{}:
	default: // only who has to wait can be interrupted
		select {
		case w.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-w.turn }()
	if left := w.left; left != nil {
		if err := w.wait(ctx, left); w.left != nil || left.text == text {
			return err
		}
	}
	if !joins {
		return f(ctx)
	}
	now := &write{text: text, done: make(chan struct{})}
	go func() {
		defer close(now.done)
		now.err = f(context.WithoutCancel(ctx))
	}()
	return w.wait(ctx, now)
}

// wait waits for a write, or leaves it to be waited for by the next.
func (w *Writer) wait(ctx context.Context, now *write) error {
	select {
	case <-now.done:
		w.left = nil
		return now.err
	case <-ctx.Done():
		w.left = now
		return ctx.Err()
	}
}

// take does the messages of text, with what was left of the one before.
func (w *Writer) take(ctx context.Context, text string) error {
	if f := w.failed; f != nil && f.text == text {
		return f.err // a file system may have written the rest of a long write again
	}
	w.failed = nil
	for rest := text; rest != ""; {
		pieces := len(w.part) > 0
		n, ended := w.scan(rest)
		w.add(rest[:n])
		rest = rest[n:]
		err := w.bad
		if ended {
			err = w.finish(ctx)
		} else if err == nil {
			err = w.early(ctx)
		}
		if err != nil {
			if pieces && ended {
				w.failed = &write{text: text, err: err}
			}
			w.skip(rest, err)
			return err
		}
	}
	return nil
}

func (w *Writer) scan(text string) (int, bool) {
	if w.quoted {
		return w.quotes.scan(text)
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i + 1, true
	}
	return len(text), false
}

// add adds a piece to the message, which may turn bad by that.
func (w *Writer) add(piece string) {
	size := len(w.part) + len(strings.TrimSuffix(piece, "\n"))
	switch i := strings.IndexByte(piece, 0); {
	case w.bad != nil:
		return
	case i >= 0:
		w.bad = fmt.Errorf("%w: message has a NUL at byte %d", ErrInvalid, len(w.part)+i)
	case size > w.max:
		w.bad = fmt.Errorf("%w: message of %d bytes: at most %d", ErrInvalid, size, w.max)
	default:
		w.part = append(w.part, piece...)
		return
	}
	w.part = nil
}

// end returns the message, and why it will not be done; the next one begins.
func (w *Writer) end() (string, error) {
	m, bad := string(w.part), w.bad
	w.quotes.begin()
	if w.part, w.bad = w.part[:0], nil; cap(w.part) > 4<<10 {
		w.part = nil
	}
	return m, bad
}

// finish does the message that has its newline.
func (w *Writer) finish(ctx context.Context) error {
	m, bad := w.end()
	if bad != nil {
		return bad
	}
	return w.do(ctx, strings.TrimSuffix(strings.TrimSuffix(m, "\n"), "\r"))
}

// early has an unfinished message done if it cannot become a longer good one:
// its error is then the right one, and shells do not look at that of a close.
// What is within quotes waits for their end, or the rest of them would be
// messages.
func (w *Writer) early(ctx context.Context) error {
	head := w.part[:min(len(w.part), maxVerb+1)]
	if w.admits == nil || w.quotes.open() || w.admits(string(head)) {
		return nil
	}
	m, _ := w.end()
	return w.do(ctx, m)
}

// skip passes over what stands behind a message that failed with err. What is
// left of a bad message, or ends within quotes, has its other pieces fail too.
func (w *Writer) skip(text string, err error) {
	for text != "" {
		n, _ := w.scan(text)
		text = text[n:]
	}
	if w.bad != nil || w.quoted && w.quotes.open() {
		w.part, w.bad = nil, err
		return
	}
	w.end()
}
