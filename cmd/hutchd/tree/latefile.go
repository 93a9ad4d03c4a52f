package tree

import (
	"os"
	"sync"
)

// A lateFile is a log of the host, made by the first write to it.
type lateFile struct {
	path string

	mu sync.Mutex // guards f
	f  *os.File
}

func (l *lateFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return 0, err
		}
		l.f = f
	}
	return l.f.Write(p)
}

// Close closes the file; a later write opens it again.
func (l *lateFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
