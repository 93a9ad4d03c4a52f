//go:build !linux

package fuse

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"hutch/fs"
)

// direct says whether to mount by system call; elsewhere than on Linux a
// helper program does it.
func direct() bool { return false }

// noFollow and killPriv cannot be had.
const (
	noFollow = 0
	killPriv = 0
)

func (s *Server) followsNone() error { return fs.ErrUnsupported }

// attach mounts.
func attach(raw gofuse.RawFileSystem, dir string, opt *gofuse.MountOptions) (*gofuse.Server, error) {
	return gofuse.NewServer(raw, dir, opt)
}

// prepare makes dir ready to be mounted on and remembers it. The function
// it returns takes back what it made.
func (s *Server) prepare(dir string) (undo func(), err error) {
	undo = func() {}
	if s.dir, err = filepath.Abs(dir); err != nil {
		return undo, err
	}
	if _, err := os.Stat(s.dir); errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENOTCONN) {
		if err := unix.Unmount(s.dir, unix.MNT_FORCE); err != nil {
			return undo, err
		}
	}
	if err := os.Mkdir(s.dir, 0o755); err == nil {
		return func() { os.Remove(s.dir) }, nil
	}
	return undo, os.MkdirAll(s.dir, 0o755)
}

// device is not needed where one mount cannot hide another.
func (s *Server) device() (string, error) { return "", nil }

// unmount takes the mount away, by force if it is in use.
func (s *Server) unmount() error {
	if err := s.raw.Unmount(); err == nil {
		return nil
	}
	return unix.Unmount(s.dir, unix.MNT_FORCE)
}
