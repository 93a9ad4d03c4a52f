package fs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// A LogFile is a log in a file of the host that keeps to a limit: what is
// written goes to its end, and its oldest half goes when it is full.
type LogFile struct {
	limit int64

	mu   sync.Mutex // guards what follows, and held over a write
	f    *os.File
	size int64
}

// OpenLogFile opens the log at path, or makes it.
func OpenLogFile(path string, limit int64) (*LogFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &LogFile{limit: limit, f: f}
	l.cut()
	return l, nil
}

func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.f.Write(p)
	if l.size += int64(n); l.size > l.limit {
		l.cut()
	}
	return n, err
}

// cut drops what is too much, and finds out the size. Its caller holds mu.
func (l *LogFile) cut() {
	CutLog(l.f.Name(), l.limit)
	if fi, err := l.f.Stat(); err == nil {
		l.size = fi.Size()
	}
}

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}

// cutHead is the line that stands where lines were dropped.
const cutHead = "# the oldest %d bytes of this log were dropped: it is kept to %d\n"

// CutLog drops the oldest part of the file at path if it has more than limit
// bytes, and puts a line there that says how much has gone in all. About half
// of the limit stays. Who writes to the file meanwhile has opened it to append.
func CutLog(path string, limit int64) error {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() <= limit {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	var before, told int64
	head := make([]byte, 4096)
	n, _ := f.ReadAt(head, 0)
	if k, _ := fmt.Sscanf(string(head[:n]), cutHead, &before, &told); k == 0 {
		before = 0
	}
	gone, err := cutFront(f, fi.Size()-limit/2)
	if err != nil {
		return err
	}
	return writeHead(f, before+gone, limit)
}

// writeHead replaces the first line, of which only the end is there, and more
// if that is too short.
func writeHead(f *os.File, gone, limit int64) error {
	p := make([]byte, 4096)
	n, err := f.ReadAt(p, 0)
	if err != nil && err != io.EOF {
		return err
	}
	line := fmt.Appendf(nil, cutHead, gone, limit)
	if n < len(line) {
		return nil
	}
	// Blanks fill it up to the end of the line that it ends in.
	if end := bytes.IndexByte(p[len(line)-1:n], '\n'); end > 0 {
		line = append(append(line[:len(line)-1], bytes.Repeat([]byte(" "), end)...), '\n')
	}
	_, err = f.WriteAt(line, 0)
	return err
}

// rewrite drops the first n bytes of f where the file system cannot: what
// stays is written anew. What another writes meanwhile may be lost.
func rewrite(f *os.File, n int64) (int64, error) {
	rest, err := io.ReadAll(io.NewSectionReader(f, n, 1<<62))
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		var end *os.File
		if end, err = os.OpenFile(f.Name(), os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, err = end.Write(rest)
			end.Close()
		}
	}
	return n, err
}
