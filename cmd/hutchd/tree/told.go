package tree

import (
	"context"
	"fmt"
	"os"
	"strings"

	"hutch/fs"
	"hutch/mcpd/timeline"
)

// maxKept is how many bytes of texts open files keep, all together, when another is
// asked for.
const maxKept = 256 << 20

// maxQuestion is the length of the longest line that can be asked.
const maxQuestion = 1 << 20

// told is a text that is asked for. What is said after it was read begins another.
type told struct {
	s      *Server
	answer func(ctx context.Context, message string) (string, error)
	make   func(ctx context.Context) (string, error) // of what has no answers: the text, when it is read first

	text string
	origin
}

// openRPC opens a file on which lines are written and their answers read, those of
// several lines one after the other: a tool, a resource, a prompt.
func (s *Server) openRPC(flags int, ask func(ctx context.Context, line string) (string, error)) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	return openAsked(&told{s: s, answer: func(ctx context.Context, line string) (string, error) {
		return ask(ctx, strings.TrimSpace(line))
	}}, maxQuestion), nil
}

// openNarrowed opens a text that messages narrow which are written on the file.
func (s *Server) openNarrowed(flags int, words []fs.Verb[*timeline.Query], text func(context.Context, timeline.Query) (string, error)) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR) == os.O_WRONLY {
		return nil, wantBoth(flags)
	}
	var q timeline.Query
	h := openAsked(&told{
		s:      s,
		answer: func(_ context.Context, m string) (string, error) { return "", q.Narrow(words, m) },
		make:   func(ctx context.Context) (string, error) { return text(ctx, q) },
	}, 0)
	h.words = fs.NewWriter(words, h.say)
	return h, nil
}

func (t *told) say(ctx context.Context, message string) error {
	if t.known {
		t.end()
	}
	return t.add(func() (string, error) { return t.answer(ctx, message) })
}

func (t *told) read(ctx context.Context, p []byte, off int64) (int, error) {
	if !t.known && t.make != nil {
		if err := t.add(func() (string, error) { return t.make(ctx) }); err != nil {
			return 0, err
		}
	}
	return fs.ReadText(t.text, p, t.within(off)), nil
}

// add adds what is asked for to the text, if there is room.
func (t *told) add(ask func() (string, error)) error {
	if n := t.s.kept.Load(); n > maxKept {
		return fmt.Errorf("%w: open files keep %d MiB of answers: close some", fs.ErrNoSpace, n>>20)
	}
	text, err := ask()
	if err != nil {
		return err
	}
	t.s.kept.Add(int64(len(text)))
	t.text += text
	return nil
}

// end forgets the text.
func (t *told) end() {
	t.s.kept.Add(int64(-len(t.text)))
	t.text, t.origin = "", origin{}
}
