package profiles

import (
	"errors"
	"os"
	"time"

	"hutch/fs"
)

// A look is what files were like when a profile was made of them.
type look struct {
	began time.Time
	files map[string]os.FileInfo // by path; nil: there was none
	again bool                   // one of them may change and look the same
	until string                 // the day on which one of them expires; "": none does
	notes []string               // on files that do not count
}

// settled is the age from which on a file that changes again is sure to
// have another time.
const settled = 2 * time.Second

func newLook(now time.Time) *look { return &look{began: now, files: make(map[string]os.FileInfo)} }

// holds says whether the files are what they were, and none has expired.
func (l *look) holds(now time.Time) bool {
	if l.again || l.until != "" && day(now) >= l.until {
		return false
	}
	for path, was := range l.files {
		is, err := os.Lstat(path)
		switch {
		case was == nil && errors.Is(err, os.ErrNotExist):
		case err != nil || !fs.SameFile(was, is):
			return false
		}
	}
	return true
}

// note remembers what is at a path.
func (l *look) note(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		info = nil
	}
	l.remember(path, info)
	return err
}

func (l *look) remember(path string, info os.FileInfo) {
	l.files[path] = info
	l.again = l.again || info != nil && l.began.Sub(info.ModTime()) <= settled
}

// read is readMost of a file of a profile.
func (l *look) read(path, name string) ([]byte, error) { return l.readMost(path, name, maxText) }

// readMost reads as read does, and remembers what it saw.
func (l *look) readMost(path, name string, most int64) ([]byte, error) {
	if err := l.note(path); err != nil {
		return nil, err
	}
	text, info, err := read(path, name, most)
	if err != nil {
		l.again = true // it may be read the next time as it is, as when there are descriptors
		return text, err
	}
	l.remember(path, info)
	return text, nil
}
