package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"hutch/fs"
)

// An origin tells a copy of a file.
type origin struct {
	Sum string `json:"sum"` // SHA-256
}

// A looked is what a file was when it was looked at.
type looked struct {
	origin
	info os.FileInfo
}

// copyProgram copies the program from to to.
func copyProgram(from, to string) (o origin, err error) {
	if o, err = writeProgram(from, to); err != nil {
		return o, err
	}
	f, err := os.Open(to)
	if err != nil {
		return o, err
	}
	return o, errors.Join(f.Sync(), f.Close())
}

// writeProgram copies while nothing is forked: a child that is about to become
// another program would have to open for writing, and nobody could run it.
func writeProgram(from, to string) (o origin, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return o, err
	}
	o, err = copyTo(out, from)
	return o, errors.Join(err, out.Close())
}

// copyTo writes the program from to out.
func copyTo(out io.Writer, from string) (o origin, err error) {
	in, err := os.Open(from)
	if err != nil {
		return o, err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return o, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err == nil && n != fi.Size() {
		err = fmt.Errorf("%w: %s is being written", fs.ErrBusy, from)
	}
	return origin{hex.EncodeToString(sum.Sum(nil))}, err
}

// share makes the folder to one of links to what is in the folder from.
func share(from, to string) error {
	return filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		there := to + path[len(from):]
		switch {
		case e.IsDir():
			return os.Mkdir(there, 0o755)
		case e.Type() == os.ModeSymlink:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(text, there)
		}
		return shareFile(path, there)
	})
}

// shareFile makes to a link to from, or a copy where there can be none.
func shareFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	_, err := copyProgram(from, to)
	return err
}
