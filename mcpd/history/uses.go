package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What is kept of the names of one kind. A guest can bring about any number.
const (
	maxNames = 400
	maxBytes = 48 << 10 // of their text in a profile
	maxName  = 250      // of one; the ledger cuts longer ones
)

// A use is how often a name was used, and when last.
type use struct {
	count int
	last  time.Time
}

// uses are the names of one kind that were used.
type uses struct {
	names map[string]*use
	bytes int
	left  int // uses of others, for which there was no room, or whose name is not known whole
}

// add counts a use. The name stands in a profile as text does.
func (u *uses) add(name string, when time.Time) {
	if known := u.names[name]; known != nil {
		known.count++
		if when.After(known.last) {
			known.last = when
		}
		return
	}
	n := len(celString(name))
	if !isWhole(name) || len(u.names) >= maxNames || u.bytes+n > maxBytes {
		u.left++
		return
	}
	if u.names == nil {
		u.names = map[string]*use{}
	}
	u.names[name] = &use{1, when}
	u.bytes += n
}

// isWhole says whether the ledger has all of a name, and has it as it was.
func isWhole(name string) bool {
	return len(name) <= maxName && !strings.Contains(name, "[redacted]") && !strings.Contains(name, "… [cut, ") && !strings.ContainsRune(name, '\ufffd')
}

// note is the comment about uses that were left out, "" if none were.
func note(left int) string {
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("# left out: %d uses of names that are too many, too long or secret\n", left)
}

// lines returns a line for each name, as an element of a list with a comment
// that begins with mark.
func (u *uses) lines(quote func(string) string, mark string) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(u.names)) {
		use := u.names[name]
		times := "times"
		if use.count == 1 {
			times = "time"
		}
		lines = append(lines, fmt.Sprintf("  %s, %s %d %s, last %s\n", quote(name), mark, use.count, times, use.last.UTC().Format(time.RFC3339)))
	}
	return lines
}

// maxCondition is how much of a condition lists of names may be.
const maxCondition = 12 << 10

// conditions returns the conditions that have the names in a list between begin
// and end: as many as it takes.
func (u *uses) conditions(quote func(string) string, begin, end string) (all []string) {
	list := ""
	for _, line := range u.lines(quote, "//") {
		if len(list)+len(line) > maxCondition {
			all = append(all, begin+list+end)
			list = ""
		}
		list += line
	}
	if list != "" {
		all = append(all, begin+list+end)
	}
	return all
}

// celString returns s as a string of CEL that can stand in any text of TOML:
// the guest made it up, so all but plain characters are escaped.
func celString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune(" _-./:@+,=%*#~", c):
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
