package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A logFile is a log file of the host, which the first write to it creates. Its lines
// begin with the time, and one that comes again and again is there once, with how often.
// It is not kept open: there is one for each VM, and not all have much to say.
type logFile struct {
	path string

	mu    sync.Mutex // guards what follows, and held over a write
	last  string
	again int // how often last has come since it was written
}

// repeatTime is how long repetitions of a line are counted before their number is written.
const repeatTime = time.Second

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for line := range strings.Lines(string(p)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line != l.last:
			l.count(&b)
			l.last = line
			stamp(&b, line)
		case l.again == 0:
			time.AfterFunc(repeatTime, l.flush)
			fallthrough
		default:
			l.again++
		}
	}
	return len(p), l.append(b.String(), os.O_CREATE)
}

// flush writes how often the last line has come. The file may be gone meanwhile.
func (l *logFile) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	l.count(&b)
	l.append(b.String(), 0)
}

// count adds how often the last line has come; mu is held.
func (l *logFile) count(b *strings.Builder) {
	if l.again > 0 {
		stamp(b, fmt.Sprintf("(the last line %d times more)", l.again))
		l.again = 0
	}
}

func stamp(b *strings.Builder, line string) {
	fmt.Fprintf(b, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), line)
}

// append writes text to the end of the file; mu is held.
func (l *logFile) append(text string, create int) error {
	if text == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, create|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func newAggLog(dir string) *logFile { return &logFile{path: filepath.Join(dir, "log", "agg")} }

// AggLog is the aggregator's log, which has the proxy's as well.
func (g *Gateway) AggLog() *logFile { return g.aggLog }
