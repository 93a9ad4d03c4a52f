package fs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words splits a control message as rc does: words are separated by blanks;
// between single quotes everything is literal, newlines too, and two of them
// are one quote.
func Words(m string) ([]string, error) {
	var words []string
	var b strings.Builder
	in, quoted := false, false
	for i := 0; i < len(m); i++ {
		switch c := m[i]; {
		case quoted && c == '\'' && i+1 < len(m) && m[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == '\'':
			quoted, in = !quoted, true
		case quoted || c != ' ' && c != '\t':
			b.WriteByte(c)
			in = true
		case in:
			words = append(words, b.String())
			b.Reset()
			in = false
		}
	}
	if quoted {
		return nil, fmt.Errorf("%w: quote not closed", ErrInvalid)
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// Quote returns s as one word of a control message. It can say every byte but
// NUL, and is of several lines if s is.
func Quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t'#\n\r") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// QuoteLine returns s as one word of a line that people read: what a terminal
// would not show as it is, newlines among it, makes it a string of C. Only
// such a word begins with a double quote.
func QuoteLine(s string) string {
	switch {
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(s)
	case strings.HasPrefix(s, `"`):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return Quote(s)
}

// ShellWord returns s as a word that a shell takes for s and nothing else, whoever chose
// it. What a terminal would not show as it is has the escapes of bash and zsh.
func ShellWord(s string) string {
	switch line := QuoteLine(s); {
	case s != "" && !strings.ContainsFunc(s, NotIn("._/:-")):
		return s
	case strings.HasPrefix(line, `"`):
		return "$'" + strings.ReplaceAll(line[1:len(line)-1], "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// LineWords splits a line of words that QuoteLine wrote, with or without its
// newline. As of strings.SplitN there are n of them at most, the last of which is
// the rest as it stands; with n < 0, all.
func LineWords(line string, n int) (words []string, err error) {
	line = strings.TrimSuffix(line, "\n")
	for {
		line = strings.TrimLeft(line, " \t")
		switch {
		case line == "" || n == 0:
			return words, nil
		case n == 1:
			return append(words, line), nil
		}
		var word string
		if word, line, err = cutWord(line); err != nil {
			return nil, err
		}
		words = append(words, word)
		n--
	}
}

// cutWord cuts off the first word of a line. Behind a string of C more of it may
// stand, as in "a\tb":1.
func cutWord(line string) (word, rest string, err error) {
	if strings.HasPrefix(line, `"`) {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", fmt.Errorf("%w: string of C in %.100q", ErrInvalid, line)
		}
		word, _ = strconv.Unquote(quoted)
		line = line[len(quoted):]
	}
	end, quoted := 0, false
	for ; end < len(line) && (quoted || line[end] != ' ' && line[end] != '\t'); end++ {
		quoted = quoted != (line[end] == '\'')
	}
	more, err := Words(line[:end])
	return word + strings.Join(more, ""), line[end:], err
}

// deceives says whether a character above ASCII makes lines show as something
// else than they are: those that control a terminal, that end a line for some
// programs, that turn the direction of the text, and that have no width and no use
// in scripts or emoji, by which two names look the same. All have four hex digits.
func deceives(r rune) bool {
	return r == 0x200b || r >= 0x2060 && r <= 0x2064 || r == 0xfeff || r >= 0x7f && r <= 0x9f || r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// TimeFormat is how lines of JSON have a time, which is in UTC: as wide at any
// time, so that texts compare as the times do.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// MarshalLine returns v as JSON on one line that a terminal shows as it is.
func MarshalLine(v any) ([]byte, error) {
	line, err := json.Marshal(v)
	return EscapeLine(line), err
}

// PlainLine returns what somebody else wrote as one line of text that a terminal
// shows as it is: what would control it, or turn the text about, is a question mark.
func PlainLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == utf8.RuneError || deceives(r) {
			return '?'
		}
		return r
	}, text)
}

// EscapeLine returns a line of JSON as a terminal shows it as it is.
func EscapeLine(line []byte) []byte {
	var b []byte
	done := 0
	for i, n := 0, 1; i < len(line); i += n {
		if n = 1; line[i] < 0x7f {
			continue
		}
		var r rune
		if r, n = utf8.DecodeRune(line[i:]); deceives(r) { // and stands in a string
			b = fmt.Appendf(append(b, line[done:i]...), "\\u%04x", r)
			done = i + n
		}
	}
	if done == 0 {
		return line
	}
	return append(b, line[done:]...)
}

// QuoteAll returns words as the words of a control message, with blanks
// between them.
func QuoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// CheckMessage refuses what a ctl would not take as one message.
func CheckMessage(m string) error {
	if len(m) > MaxMessage {
		return fmt.Errorf("%w: message of %d bytes: at most %d", ErrInvalid, len(m), MaxMessage)
	}
	if i := strings.IndexByte(m, 0); i >= 0 {
		return fmt.Errorf("%w: message has a NUL at byte %d", ErrInvalid, i)
	}
	var q quotes
	if _, ended := q.scan(m); ended {
		return fmt.Errorf("%w: message has a newline outside quotes", ErrInvalid)
	}
	return nil
}
