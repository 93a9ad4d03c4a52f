package client

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hugelgupf/p9/p9"

	"hutch/fs"
)

// in makes a call on the directory that path is in.
func (c *Conn) in(op, path string, call func(dir p9.File, name string) error) error {
	dir, name, err := c.parent(path)
	if err != nil {
		return errorOf(op, path, err)
	}
	defer dir.Close()
	return errorOf(op, path, call(dir, name))
}

// at makes a call on the file at path.
func (c *Conn) at(op, path string, call func(p9.File) error) error {
	f, _, err := c.walk(split(path))
	if err != nil {
		return errorOf(op, path, err)
	}
	defer f.Close()
	return errorOf(op, path, call(f))
}

// Mkdir makes a directory.
func (c *Conn) Mkdir(path string, perm os.FileMode) error {
	return c.in("mkdir", path, func(dir p9.File, name string) error {
		_, err := dir.Mkdir(name, p9.FileMode(perm.Perm()), p9.NoUID, p9.NoGID)
		return err
	})
}

// Symlink makes a symbolic link to target.
func (c *Conn) Symlink(target, path string) error {
	return c.in("symlink", path, func(dir p9.File, name string) error {
		_, err := dir.Symlink(target, name, p9.NoUID, p9.NoGID)
		return err
	})
}

// Remove removes a file, or an empty directory.
func (c *Conn) Remove(path string) error {
	f, _, err := c.walk(split(path))
	if err != nil {
		return errorOf("remove", path, err)
	}
	r, ok := f.(interface{ Remove() error })
	if !ok {
		f.Close()
		return errorOf("remove", path, fs.ErrUnsupported)
	}
	return errorOf("remove", path, r.Remove()) // which closes f, too
}

// Rename moves a file, over what is there.
func (c *Conn) Rename(from, to string) error {
	return c.in("rename", from, func(dir p9.File, name string) error {
		return c.in("rename", to, func(todir p9.File, toname string) error {
			return dir.RenameAt(name, todir, toname)
		})
	})
}

// Readlink returns where a symbolic link points to.
func (c *Conn) Readlink(path string) (target string, err error) {
	err = c.at("readlink", path, func(f p9.File) (err error) {
		target, err = f.Readlink()
		return err
	})
	return target, err
}

// Stat describes the file at path.
func (c *Conn) Stat(path string) (st fs.Stat, err error) {
	names := split(path)
	name := "/"
	if len(names) > 0 {
		name = names[len(names)-1]
	}
	err = c.at("stat", path, func(f p9.File) (err error) {
		st, err = statOf(f, name)
		return err
	})
	return st, err
}

func statOf(f p9.File, name string) (fs.Stat, error) {
	qid, _, a, err := f.GetAttr(p9.AttrMaskAll)
	if err != nil {
		return fs.Stat{}, err
	}
	return fs.Stat{
		Name: name, Mode: a.Mode.OSMode(), Qid: qid.Path, Vers: qid.Version, Size: a.Size,
		Nlink: uint32(a.NLink), UID: uint32(a.UID), GID: uint32(a.GID),
		Atime: time.Unix(int64(a.ATimeSeconds), int64(a.ATimeNanoSeconds)),
		Mtime: time.Unix(int64(a.MTimeSeconds), int64(a.MTimeNanoSeconds)),
		Ctime: time.Unix(int64(a.CTimeSeconds), int64(a.CTimeNanoSeconds)),
	}, nil
}

// Set changes attributes of the file at path.
func (c *Conn) Set(path string, change fs.Change) error {
	return c.at("set", path, func(f p9.File) error { return setOf(f, change) })
}

func setOf(f p9.File, c fs.Change) error {
	var mask p9.SetAttrMask
	var a p9.SetAttr
	if c.Size != nil {
		mask.Size, a.Size = true, *c.Size
	}
	if c.Mode != nil {
		mask.Permissions, a.Permissions = true, p9.FileMode(c.Mode.Perm())
	}
	if c.UID != nil {
		mask.UID, a.UID = true, p9.UID(*c.UID)
	}
	if c.GID != nil {
		mask.GID, a.GID = true, p9.GID(*c.GID)
	}
	if c.Atime != nil {
		mask.ATime, mask.ATimeNotSystemTime = true, true
		a.ATimeSeconds, a.ATimeNanoSeconds = uint64(c.Atime.Unix()), uint64(c.Atime.Nanosecond())
	}
	if c.Mtime != nil {
		mask.MTime, mask.MTimeNotSystemTime = true, true
		a.MTimeSeconds, a.MTimeNanoSeconds = uint64(c.Mtime.Unix()), uint64(c.Mtime.Nanosecond())
	}
	return f.SetAttr(mask, a)
}

// maxEntries is how long a directory may be: a server might never end it.
const maxEntries = 1 << 20

// ReadDir lists a directory, sorted by name.
func (c *Conn) ReadDir(path string) (list []fs.Entry, err error) {
	err = c.at("list", path, func(f p9.File) (err error) {
		list, err = c.entries(f)
		return err
	})
	return list, err
}

func (c *Conn) entries(f p9.File) ([]fs.Entry, error) {
	if _, _, err := f.Open(p9.ReadOnly); err != nil {
		return nil, err
	}
	var list []fs.Entry
	var off uint64
	for {
		some, err := f.Readdir(off, uint32(c.iosize))
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			break
		}
		for _, d := range some {
			off = d.Offset
			if d.Name == "." || d.Name == ".." {
				continue
			}
			if d.Name == "" || strings.ContainsAny(d.Name, "/\x00") {
				return nil, fmt.Errorf("%w: server lists a file called %q", fs.ErrIO, d.Name)
			}
			list = append(list, fs.Entry{Name: d.Name, Mode: entryMode(d), Qid: d.QID.Path})
		}
		if len(list) > maxEntries {
			return nil, fmt.Errorf("%w: directory without end", fs.ErrIO)
		}
	}
	slices.SortFunc(list, func(a, b fs.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// entryMode returns the type of an entry.
func entryMode(d p9.Dirent) os.FileMode {
	switch {
	case d.QID.Type&p9.TypeDir != 0:
		return os.ModeDir
	case d.QID.Type&p9.TypeSymlink != 0:
		return os.ModeSymlink
	}
	return p9.FileMode(uint32(d.Type) << 12).OSMode().Type()
}

// List describes all files in a directory, sorted by name. Those that go
// meanwhile are left out.
func (c *Conn) List(path string) ([]fs.Stat, error) {
	entries, err := c.ReadDir(path)
	if err != nil {
		return nil, err
	}
	stats := make([]fs.Stat, len(entries))
	errs := make([]error, len(entries))
	var wg sync.WaitGroup
	turn := make(chan struct{}, 16)
	for i, e := range entries {
		turn <- struct{}{}
		wg.Go(func() {
			stats[i], errs[i] = c.Stat(path + "/" + e.Name)
			<-turn
		})
	}
	wg.Wait()
	list := stats[:0]
	for i, err := range errs {
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, stats[i])
	}
	return list, nil
}
