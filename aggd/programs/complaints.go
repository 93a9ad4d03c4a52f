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
	lines  *rate.Limiter

	mu      sync.Mutex // guards what follows
	begun   []byte     // of a line
	dropped int
	tail    []string
}

// The most that is kept of a line, and of the last words, in bytes.
const (
	maxLine  = 4 << 10
	maxWords = 500
)

// idle is a line that tells nobody why a program ended, and takes no place among its last
// words: one of brackets and commas only, a frame of a stack, and what npm and node-gyp
// say of whatever fails.
var idle = regexp.MustCompile(`^(npm (error|ERR!)|gyp ERR!)?( stack)?([\s{}()\[\],;^]*|\s+at .*(\(.*\)|:[0-9]+)( \{)?)$` +
	`|^npm (error|ERR!) (code [0-9]+|404( Note that .*| tarball, .*)?$|command |A complete log |Log files were not written)` +
	`|^gyp ERR! (System|command|cwd|node -v|node-gyp -v|not ok)\b`)

// NewComplaints returns what logs to log what a server's program complains of.
func NewComplaints(server string, log io.Writer) *Complaints {
	return &Complaints{server: server, log: log, lines: rate.NewLimiter(20, 100)}
}

// Write takes the next bytes.
func (c *Complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, next, ended := bytes.Cut(rest, []byte("\n"))
		take := min(len(line), maxLine-len(c.begun))
		c.begun = append(c.begun, line[:take]...)
		if take < len(line) {
			next, ended = rest[take:], true
		}
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
	text = fs.PlainLine(strings.TrimRight(text, "\r"))
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
