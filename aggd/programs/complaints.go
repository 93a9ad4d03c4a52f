package programs

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"hutch/fs"
)

// A Complaints logs what a program writes to its standard error, as long as there
// are not too many lines, and keeps the last ones that say
// something.
type Complaints struct {
	server string
	log    io.Writer
	show   Shower
	lines  *rate.Limiter

	mu      sync.Mutex // guards what follows
	begun   []byte     // of a line
	dropped int
	tail    []string
}

// The most that is logged of a line, and that is kept of the last words, in bytes; and
// what is kept of a line until it ends, which is enough to know the longest secret that
// begins in what is logged.
const (
	maxLine  = 4 << 10
	maxKept  = 256 << 10
	maxWords = 500
)

// A Shower returns the beginning of a text, at most max bytes, as people may see it: without
// secrets. It is the one that cuts, since half a secret cannot be told from another text.
type Shower func(text string, max int) string

// idle is a line that tells nobody why a program ended, and takes no place among its last
// words: one of brackets and commas only, a frame of a stack, and what npm and node-gyp
// say of whatever fails.
var idle = regexp.MustCompile(`^(npm (error|ERR!)|gyp ERR!)?( stack)?([\s{}()\[\],;^]*|\s+at .*(\(.*\)|:[0-9]+)( \{)?)$` +
	`|^npm (error|ERR!) (code [0-9]+|404( Note that .*| tarball, .*)?$|command |A complete log |Log files were not written)` +
	`|^gyp ERR! (System|command|cwd|node -v|node-gyp -v|not ok)\b`)

// NewComplaints returns what logs to log what a server's program complains of, as show has
// it; nil shows all.
func NewComplaints(server string, log io.Writer, show Shower) *Complaints {
	if show == nil {
		show = func(text string, max int) string { return text[:min(len(text), max)] }
	}
	return &Complaints{server: server, log: log, show: show, lines: rate.NewLimiter(20, 100)}
}

// Write takes the next bytes.
func (c *Complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, next, ended := bytes.Cut(rest, []byte("\n"))
		c.begun = append(c.begun, line[:min(len(line), maxKept-len(c.begun))]...)
		if !ended {
			break
		}
		c.line(string(c.begun))
		c.begun, rest = c.begun[:0], next
	}
	return len(p), nil
}

// line logs one line; mu is held.
func (c *Complaints) line(text string) {
	text = fs.PlainLine(c.show(strings.TrimRight(text, "\r"), maxLine))
	if text == "" {
		return
	}
	if !idle.MatchString(text) {
		c.tail = append(c.tail, strings.TrimSpace(text))
		c.tail = c.tail[max(0, len(c.tail)-5):]
	}
	if !c.lines.Allow() {
		c.dropped++
		return
	}
	if c.dropped > 0 {
		fmt.Fprintf(c.log, "%s: (%d lines dropped)\n", c.server, c.dropped)
		c.dropped = 0
	}
	fmt.Fprintf(c.log, "%s: %s\n", c.server, text)
}

// Last returns the last words.
func (c *Complaints) Last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.begun) > 0 {
		c.line(string(c.begun))
		c.begun = nil
	}
	words := strings.Join(c.tail, " / ")
	if over := len(words) - maxWords; over > 0 {
		words = words[over:]
		if _, whole, ok := strings.Cut(words, " "); ok { // not from within a word, unless there is only one
			words = whole
		}
	}
	return strings.ToValidUTF8(words, "")
}
