package attest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hutch/fs"
)

// The file is of lines, that say what happened in this order, all times in
// milliseconds since 1970:
//
//	vm ID                         whose it is
//	session ID EXPIRES CLOCK      a token was made, or was good when the file was
//	seen ID CLOCK UNTIL NONCE     a signature was taken
//	revoke ID
//
// It grows at its end, and is made anew of what still counts when it has become
// twice as long as it has to be.

// least is how long the file may become without being made anew.
const least = 64 << 10

// A log is the file, and what is to be written to it. Lines are made under the
// Gate's lock; commit writes them, of all who wait at once.
type log struct {
	lines []byte // not written yet
	last  uint64 // ticket of the last line
	done  uint64 // ticket of the last one on the disk

	writing sync.Mutex // held by who writes; guards what follows
	file    *os.File   // nil: it has to be made anew
	size    int
	whole   int // size when it was made
}

func (l *log) add(line string) uint64 {
	l.lines = append(l.lines, line...)
	l.last++
	return l.last
}

func (l *log) seen(id string, clock, until int64, n nonce) uint64 {
	return l.add(seenLine(id, clock, until, n))
}
func (l *log) revoked(id string) uint64           { return l.add("revoke " + id + "\n") }
func (l *log) began(id string, s *session) uint64 { return l.add(sessionLine(id, s)) }

func seenLine(id string, clock, until int64, n nonce) string {
	return fmt.Sprintf("seen %s %d %d %x\n", id, clock, until, n)
}

func sessionLine(id string, s *session) string {
	return fmt.Sprintf("session %s %d %d\n", id, s.expires, s.clock)
}

// commit has everything up to a ticket on the disk.
func (g *Gate) commit(ticket uint64) error {
	l := &g.log
	l.writing.Lock()
	defer l.writing.Unlock()
	g.mu.Lock()
	if l.done >= ticket || g.closed {
		defer g.mu.Unlock()
		if g.closed {
			return errClosed
		}
		return nil
	}
	lines, upTo := l.lines, l.last
	anew := l.file == nil || l.size+len(lines) > max(2*l.whole, least)
	if anew {
		lines = g.text()
	}
	l.lines = nil
	g.mu.Unlock()
	var err error
	if anew {
		err = l.replace(g.cfg.Path, lines)
	} else {
		err = l.append(lines)
	}
	if err != nil {
		l.close() // what is in memory has what this had: the next one writes it all
		return fmt.Errorf("%w: sessions of the guest: %w", fs.ErrIO, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l.done = upTo
	return nil
}

func (l *log) append(lines []byte) error {
	n, err := l.file.Write(lines)
	l.size += n
	if err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *log) replace(path string, text []byte) error {
	l.close()
	if err := fs.WriteFile(path, text, true); err != nil {
		return err
	}
	var err error
	l.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	l.size, l.whole = len(text), len(text)
	return err
}

func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// text returns the lines for all that still counts.
func (g *Gate) text() []byte {
	b := []byte("vm " + g.id + "\n")
	for _, id := range slices.Sorted(maps.Keys(g.sessions)) {
		s := g.sessions[id]
		b = append(b, sessionLine(id, s)...)
		for n, until := range s.seen {
			b = append(b, seenLine(id, s.clock, until, n)...)
		}
		if s.revoked {
			b = append(b, "revoke "+id+"\n"...)
		}
	}
	return b
}

// read sets what the file says. A last line without its end was never waited
// for. A file that makes no sense, or none, is that of a VM of which nothing is
// known.
func (g *Gate) read(text []byte) {
	whole := text[:strings.LastIndexByte(string(text), '\n')+1]
	g.id, g.seen, g.sessions = "", 0, make(map[string]*session)
	for line := range strings.Lines(string(whole)) {
		if !g.line(strings.Fields(line)) {
			g.id = ""
			break
		}
	}
	if g.id == "" {
		g.id, g.seen, g.sessions = rand.Text(), 0, make(map[string]*session)
	}
}

// line takes one line, and says whether it makes sense.
func (g *Gate) line(words []string) bool {
	if len(words) == 2 && words[0] == "vm" && g.id == "" {
		g.id = words[1]
		return true
	}
	if len(words) < 2 || g.id == "" {
		return false
	}
	id, s := words[1], g.sessions[words[1]]
	switch {
	case words[0] == "session" && len(words) == 4 && s == nil:
		expires, err := number(words[2])
		clock, err2 := number(words[3])
		g.sessions[id] = &session{expires: expires, clock: clock, seen: make(map[nonce]int64)}
		return err == nil && err2 == nil
	case s == nil: // it was dropped
		return words[0] == "seen" || words[0] == "revoke"
	case words[0] == "revoke" && len(words) == 2:
		s.revoked = true
		return true
	case words[0] == "seen" && len(words) == 5:
		clock, err := number(words[2])
		until, err2 := number(words[3])
		raw, err3 := hex.DecodeString(words[4])
		if err != nil || err2 != nil || err3 != nil || len(raw) != len(nonce{}) {
			return false
		}
		s.clock = max(s.clock, clock)
		if _, again := s.seen[nonce(raw)]; !again {
			g.seen++
		}
		s.seen[nonce(raw)] = until
		return true
	}
	return false
}

func number(word string) (int64, error) { return strconv.ParseInt(word, 10, 64) }
