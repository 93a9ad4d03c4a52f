package node

import (
	"context"
	"fmt"
	"strings"
)

// MaxMessage is the length of the longest control message.
const MaxMessage = 32 << 10

// A Writer cuts what is written into lines and passes each, without its
// newline, to a function. A line may come in pieces: what is not ended by a
// newline waits for the rest, and is taken as it is when the file is closed.
//
// Messages of one open file are done in order. A writer that gives up
// waiting does not stop the work; if it then writes the same bytes again, as
// programs do that restart an interrupted system call, it waits for the work
// that is under way, and gets its result.
type Writer struct {
	do     func(ctx context.Context, message string) error
	admits func(part string) bool
	max    int
	joins  bool // a write outlives its writer

	turn chan struct{} // holds a token: whoever has it uses what follows
	part string
	left *write // what a writer gave up waiting for
}

// A write is a write under way, and what came of it once done is closed.
type write struct {
	text string
	done chan struct{}
	err  error
}

// NewWriter returns a Writer that passes messages to do. If admits is not
// nil it says whether an unfinished message can become a good one, so that
// a bad one is refused by the write that begins it.
func NewWriter(do func(ctx context.Context, message string) error, admits func(part string) bool) *Writer {
	return &Writer{do: do, admits: admits, max: MaxMessage, joins: true, turn: make(chan struct{}, 1)}
}

// NewLongWriter returns a Writer of messages of up to max bytes, whose work
// ends with the writer's context.
func NewLongWriter(do func(ctx context.Context, message string) error, max int) *Writer {
	return &Writer{do: do, max: max, turn: make(chan struct{}, 1)}
}

// Write takes p whole, or returns the error of the first message that
// failed; the messages after it are not done.
func (w *Writer) Write(ctx context.Context, p []byte) (int, error) {
	if err := w.use(ctx, string(p), func(ctx context.Context) error { return w.take(ctx, string(p)) }); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush does the message that had no newline.
func (w *Writer) Flush(ctx context.Context) error {
	return w.use(ctx, "", func(ctx context.Context) error {
		part := w.part
		w.part = ""
		if part == "" {
			return nil
		}
		return w.do(ctx, part)
	})
}

// use does f, which is the write of text, when it is its turn.
func (w *Writer) use(ctx context.Context, text string, f func(context.Context) error) error {
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
	if !w.joins {
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

// take does the lines of text, with what was left of the one before.
func (w *Writer) take(ctx context.Context, text string) error {
	text = w.part + text
	w.part = ""
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if err := w.check(line); err != nil {
			return err
		}
		if !ended {
			return w.keep(ctx, line)
		}
		if err := w.do(ctx, strings.TrimSuffix(line, "\r")); err != nil {
			return err
		}
		text = rest
	}
}

// keep holds an unfinished message, or has it done if it cannot become a
// good one: its error is then the right one.
func (w *Writer) keep(ctx context.Context, part string) error {
	if part != "" && w.admits != nil && !w.admits(part) {
		return w.do(ctx, part)
	}
	w.part = part
	return nil
}

func (w *Writer) check(line string) error {
	if len(line) > w.max {
		return fmt.Errorf("%w: message of %d bytes: at most %d", ErrInvalid, len(line), w.max)
	}
	if i := strings.IndexByte(line, 0); i >= 0 {
		return fmt.Errorf("%w: message has a NUL at byte %d", ErrInvalid, i)
	}
	return nil
}
