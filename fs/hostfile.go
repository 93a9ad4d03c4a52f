package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Replace puts a file of the host with what write writes in the place of path,
// in one step: whoever opens path finds what was there or all of the new file.
// With sync it is on the disk when Replace returns.
func Replace(path string, sync bool, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), aside)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it is still there
	err = write(f)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil || !sync {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

const aside = ".new-" // begins the name of a file that Replace is writing

// Sweep removes from a folder of the host what Replace was writing there when a
// process was killed. Nobody else may be writing there.
func Sweep(dir string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), aside) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// WriteFile is Replace with data.
func WriteFile(path string, data []byte, sync bool) error {
	return Replace(path, sync, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// ReadRegular returns up to most bytes of a regular file of the host, and what it
// is. A pipe or a device in its place is refused, and holds nothing up, and so is what
// admit, if it is not nil, says no to.
func ReadRegular(path string, most int64, admit func(*os.File) error) ([]byte, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%w: %s is not a regular file", ErrInvalid, path)
	}
	if admit != nil {
		if err := admit(f); err != nil {
			return nil, nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return text, info, err
}

// WriteJSON is WriteFile with v as a line of JSON.
func WriteJSON(path string, v any, sync bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFile(path, append(data, '\n'), sync)
}

// ReadJSON sets what to points at to what the file at path says in JSON.
func ReadJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrIO, filepath.Base(path), err)
	}
	return nil
}

// SyncFolder has on the disk which entries a folder of the host has.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// SameFile says whether a file of the host that was looked at is what it was
// then: was is nil if it was not looked at yet.
func SameFile(was, is os.FileInfo) bool {
	return was != nil && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// HostQid returns the number in a tree of a file of the host. A high bit sets
// it apart from those of made-up files, which are below 1<<48; those of
// several devices are told apart.
func HostQid(dev, ino uint64) uint64 {
	return 1<<62 | (dev*0x9e37&0x3fff)<<48 | ino&(1<<48-1)
}
