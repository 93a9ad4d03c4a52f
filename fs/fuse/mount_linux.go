package fuse

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/fs/mountinfo"
)

// letGo is how long an ordinary user's Close waits for other processes to
// let go of a mount whose connection it may not cut.
var letGo = time.Second

// direct says whether to mount by system call, as root may, or by fusermount3.
func direct() bool { return os.Geteuid() == 0 }

// noFollow are the flags of a mount on which the kernel follows no link.
const noFollow = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOSYMFOLLOW

// killPriv leaves it to us to take setuid bits from a file that is changed:
// the kernel would ask for the capabilities of the file before each write.
const killPriv = gofuse.CAP_HANDLE_KILLPRIV_V2

// followsNone asks whether the kernel has taken noFollow: older ones do not
// know it, and say nothing.
func (s *Server) followsNone() error {
	m, err := mountedOn(s.dir)
	if err == nil && (m == nil || !slices.Contains(strings.Split(m.Flags, ","), "nosymfollow")) {
		err = fmt.Errorf("%w: a mount on which no link is followed; Linux 5.10 has it", fs.ErrUnsupported)
	}
	return err
}

// attach mounts. The library leaves the connection to the kernel open to the
// programs that this process starts. One of them that outlives a killed server
// would keep the mount from dying, and who uses it waiting for ever.
func attach(raw gofuse.RawFileSystem, dir string, opt *gofuse.MountOptions) (*gofuse.Server, error) {
	raw = passing{raw}
	if !opt.DirectMountStrict { // fusermount3 is one of those programs, and hands over what closes
		return gofuse.NewServer(raw, dir, opt)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	defer keepConnections()
	return gofuse.NewServer(raw, dir, opt)
}

// keepConnections keeps this process's connections to the kernel from
// programs that it starts.
func keepConnections() {
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); to == "/dev/fuse" {
			fd, _ := strconv.Atoi(f.Name())
			unix.CloseOnExec(fd)
		}
	}
}

// prepare makes dir ready to be mounted on and remembers it. The function
// it returns takes back what it made.
func (s *Server) prepare(dir string) (undo func(), err error) {
	undo = func() {}
	if s.dir, err = resolve(dir); err != nil {
		return undo, err
	}
	if err := clear(s.dir); err != nil {
		return undo, err
	}
	fi, err := os.Stat(s.dir)
	switch {
	case err == nil && !fi.IsDir():
		return undo, fs.ErrNotDir
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return undo, err
		}
		return func() { os.Remove(s.dir) }, nil
	}
	return undo, err
}

// resolve returns dir as mount tables name it. The last element is looked
// at only if it is a link: a dead mount answers nothing else.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if fi, err := os.Lstat(abs); err == nil && fi.Mode()&os.ModeSymlink != 0 {
		return filepath.EvalSymlinks(abs)
	}
	up, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, os.ErrNotExist) {
		return abs, nil
	}
	return filepath.Join(up, filepath.Base(abs)), err
}

// clear removes dead mounts from dir and refuses a live one.
func clear(dir string) error {
	for {
		m, err := mountedOn(dir)
		if err != nil || m == nil {
			return err
		}
		if _, err := os.Stat(dir); !errors.Is(err, syscall.ENOTCONN) {
			return fmt.Errorf("%w: %s is mounted there", fs.ErrBusy, m)
		}
		if err := detach(dir); err != nil {
			return fmt.Errorf("remove dead mount: %w", err)
		}
	}
}

// mountedOn returns what is mounted on dir, the uppermost if there are several, or nil.
func mountedOn(dir string) (*mountinfo.Mount, error) {
	list, err := mountinfo.Read(mountinfo.Own)
	for _, m := range slices.Backward(list) {
		if m.Dir == dir {
			return &m, nil
		}
	}
	return nil, err
}

// device returns the number that tells this mount from others on dir.
func (s *Server) device() (string, error) {
	m, err := mountedOn(s.dir)
	if err != nil || m == nil {
		return "", err
	}
	return m.Device, nil
}

// unmount takes the mount away.
func (s *Server) unmount() error {
	m, err := mountedOn(s.dir)
	switch {
	case err != nil:
		return err
	case m == nil: // someone took it out of sight
		return s.cut()
	case m.Device != s.number:
		return fmt.Errorf("%w: %s is mounted over it", fs.ErrBusy, m)
	}
	if direct() {
		// By force, which cuts the connection: who uses the tree may do so in
		// another mount namespace, where it stays.
		err := unix.Unmount(s.dir, unix.MNT_FORCE|unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && s.gone() {
			return nil
		}
		return err
	}
	if err := fusermount("-u", s.dir); err != nil && !s.gone() {
		if err := detach(s.dir); err != nil && !s.gone() {
			return err
		}
	}
	// Taken out of sight here, it may still be held by a process with a mount
	// namespace of its own: one made by an ordinary user keeps all that was
	// mounted then.
	select {
	case <-s.done:
		return nil
	case <-time.After(letGo / 4):
		return s.cut()
	}
}

// gone says whether the mount has ended by itself.
func (s *Server) gone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// cut ends the connection of a mount that is out of sight but in use, as its
// owner may where the kernel's list of connections is mounted.
func (s *Server) cut() error {
	_, minor, _ := strings.Cut(s.number, ":")
	abort := filepath.Join("/sys/fs/fuse/connections", minor, "abort")
	if os.WriteFile(abort, []byte("1"), 0) == nil {
		return nil
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(letGo):
		return fmt.Errorf("%w: out of sight, but other processes hold files of it", fs.ErrBusy)
	}
}

// detach takes a mount out of sight, whoever uses it.
func detach(dir string) error {
	if direct() {
		return unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	return fusermount("-u", "-z", dir)
}

func fusermount(args ...string) error {
	out, err := exec.Command("fusermount3", append([]string{"-q"}, args...)...).CombinedOutput()
	if text := bytes.TrimSpace(out); err != nil && len(text) > 0 {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}
