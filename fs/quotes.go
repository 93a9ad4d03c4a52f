package fs

import "strings"

// quotes follows a message byte by byte, to tell where it ends: at the first
// newline outside quotes. Quotes are those of rc, but for the verbs whose
// line a shell reads: there they are the shell's, and whatever has a shell
// read on at a newline has the message go on. A comment has none, nor has the
// line of any other raw verb.
type quotes struct {
	of func(verb string) place // nil: inWords, of every verb

	place   place
	verb    []byte // the first word, as long as it may be a raw verb's
	nest    []byte // what is open, the innermost last
	last    byte   // the byte before
	escaped bool   // by a backslash
	remark  bool   // in a comment
}

// A place is where in a message the next byte is.
type place uint8

const (
	inVerb place = iota
	inWords
	inShell
	inLine
)

// open says whether a newline would be part of the message.
func (q *quotes) open() bool { return q.escaped || len(q.nest) > 0 }

// scan returns how many bytes of text belong to the message, its newline
// among them, and whether it has ended.
func (q *quotes) scan(text string) (int, bool) {
	for i := range len(text) {
		if text[i] == '\n' && !q.open() {
			q.begin()
			return i + 1, true
		}
		q.next(text[i])
	}
	return len(text), false
}

// begin makes q ready for another message.
func (q *quotes) begin() { *q = quotes{of: q.of, verb: q.verb[:0], nest: q.nest[:0]} }

func (q *quotes) next(c byte) {
	switch {
	case q.escaped:
		q.escaped, c = false, 0
	case q.remark:
		q.remark = c != '\n'
	case q.place == inVerb:
		q.head(c)
	case q.place == inShell:
		q.shell(c)
	case q.place == inLine:
	case c == '\'':
		q.toggle(c)
	}
	q.last = c
}

// head takes a byte of the first word.
func (q *quotes) head(c byte) {
	switch blank := c == ' ' || c == '\t'; {
	case blank && len(q.verb) == 0:
	case blank && q.of != nil:
		q.place = q.of(string(q.verb))
	case c == '#' && len(q.verb) == 0:
		q.remark = true
	case blank, len(q.verb) == maxVerb:
		q.place = inWords
	default:
		q.verb = append(q.verb, c)
	}
	if c == '\'' {
		q.place = inWords
		q.toggle(c)
	}
}

const maxVerb = 64 // no verb is as long

// shell takes a byte of what a shell reads.
func (q *quotes) shell(c byte) {
	in := q.top()
	switch {
	case in == '\'' || in == '$': // '…' and $'…'
		if q.escaped = c == '\\' && in == '$'; c == '\'' {
			q.pop()
		}
	case c == '\\':
		q.escaped = true
	case c == '"' || c == '`':
		q.toggle(c)
	case c == '(' && (q.last == '$' || in == '('):
		q.nest = append(q.nest, c)
	case in == '"':
	case c == '\'' && q.last == '$':
		q.nest = append(q.nest, '$')
	case c == '\'':
		q.nest = append(q.nest, c)
	case c == ')' && in == '(':
		q.pop()
	case c == '#':
		q.remark = strings.IndexByte(" \t\n;&|()`", q.last) >= 0
	}
}

func (q *quotes) top() byte {
	if len(q.nest) == 0 {
		return 0
	}
	return q.nest[len(q.nest)-1]
}

func (q *quotes) pop() { q.nest = q.nest[:len(q.nest)-1] }

// toggle ends the quotes c, or begins them.
func (q *quotes) toggle(c byte) {
	if q.top() == c {
		q.pop()
		return
	}
	q.nest = append(q.nest, c)
}
