// Package sqltext tells where a statement of SQL ends that comes in lines.
package sqltext

import "strings"

// Max is how many bytes a statement has at most.
const Max = 64 << 10

// A Text is a statement that comes in lines. The zero value is an empty one.
type Text struct {
	text   strings.Builder
	within byte // what the rest of a quotation or a comment ends with; 0: neither
	whole  bool
}

// Add adds a line, and says whether the statement is whole: its last word is a
// semicolon, as sqlite3_complete has it, or it is longer than any may be.
func (t *Text) Add(line string) bool {
	t.text.WriteString(line + "\n")
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch c := line[i]; {
		case t.within == '*':
			if strings.HasPrefix(rest, "*/") {
				t.within = 0
				i++
			}
		case t.within != 0:
			if c == t.within {
				t.within = 0
			}
		case strings.HasPrefix(rest, "--"):
			i = len(line)
		case strings.HasPrefix(rest, "/*"):
			t.within = '*'
			i++
		case c == '\'' || c == '"' || c == '`':
			t.within, t.whole = c, false
		case c == '[':
			t.within, t.whole = ']', false
		case !strings.ContainsRune(" \t\r\f", rune(c)):
			t.whole = c == ';'
		}
	}
	return t.whole && t.within == 0 || t.text.Len() > Max
}

// Take returns what there is of the statement, without blanks around it; the next
// one begins.
func (t *Text) Take() string {
	text := strings.TrimSpace(t.text.String())
	*t = Text{}
	return text
}
