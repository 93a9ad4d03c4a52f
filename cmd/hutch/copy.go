package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"hutch/fs"
)

// cp copies a file, or a folder with all in it, into a VM or out of it.
func cp(ctx context.Context, c *tree, args []string) error {
	if slices.Contains(args, "-") {
		return fmt.Errorf("%w: cp has no standard input or output: use hutch exec VM cat FILE, or ./- for a file of that name", fs.ErrInvalid)
	}
	fromVM, from, out := place(args[0])
	toVM, to, in := place(args[1])
	if in == out {
		return misused("cp", "one of the two must be VM:PATH, the other a file here")
	}
	if in {
		dst, err := guestPath(c, toVM, to)
		if err != nil {
			return err
		}
		if mode, err := c.stat(dst); err == nil && mode.IsDir() {
			dst = path.Join(dst, filepath.Base(from))
		}
		return copyIn(ctx, c, from, dst)
	}
	src, err := guestPath(c, fromVM, from)
	if err != nil {
		return err
	}
	if _, err := c.stat(src); isMissing(err) {
		return fmt.Errorf("%w: %s", fs.ErrNotExist, args[0])
	}
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		to = filepath.Join(to, path.Base(src))
	}
	return copyBack(ctx, c, src, to)
}

// place tells VM:PATH from a path here, which may say so by a slash before
// its first colon.
func place(arg string) (vm, name string, inVM bool) {
	vm, name, ok := strings.Cut(arg, ":")
	if !ok || vm == "" || strings.Contains(vm, "/") {
		return "", arg, false
	}
	return vm, name, true
}

// guestPath returns where the tree has a path of a guest, which is relative
// to its workspace.
func guestPath(c *tree, vm, name string) (string, error) {
	dir, err := vmDir(vm)
	if err != nil {
		return "", err
	}
	status, err := readFile(c, dir+"/status")
	if err != nil {
		return "", noVM(c, vm, err)
	}
	const workspace = "/workspace"
	if !path.IsAbs(name) {
		name = path.Join(workspace, name)
	}
	name = path.Clean(name)
	if rest, ok := strings.CutPrefix(name, workspace); ok && (rest == "" || rest[0] == '/') {
		return path.Join(dir, "work", rest), nil
	}
	if !strings.HasPrefix(status, "running\n") {
		return "", fmt.Errorf("%w: VM %s does not run: then it has its workspace alone", fs.ErrBusy, vm)
	}
	return path.Join(dir, "root", name), nil
}

// copyIn copies from here to the tree.
func copyIn(ctx context.Context, c *tree, from, to string) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		c.remove(to)
		return c.symlink(target, to)
	case st.IsDir():
		return copyFolderIn(ctx, c, from, to, st.Mode().Perm())
	case !st.Mode().IsRegular():
		return special(from, st.Mode())
	}
	return copyFileIn(c, from, to, st.Mode().Perm())
}

// special is the error of a file that is neither a regular file nor a folder nor a link.
func special(name string, mode os.FileMode) error {
	kind := "a device"
	switch {
	case mode&os.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&os.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Errorf("%w: %s is %s, and cp copies files, folders and links", fs.ErrUnsupported, name, kind)
}

// leftOut tells of a file that cannot be copied, if that is what err says, so that the rest
// of the folder is; result is then that the copy failed.
func leftOut(err error, result *error) error {
	switch {
	case errors.As(err, new(exit)): // in a folder below
		*result = err
		return nil
	case !fs.Is(err, fs.ErrUnsupported):
		return err
	}
	fmt.Fprintf(os.Stderr, "hutch: %s\n", fs.Text(err))
	*result = exit(1)
	return nil
}

// copyFolderIn copies a folder. The copy gets its mode last: until then it can be written
// to.
func copyFolderIn(ctx context.Context, c *tree, from, to string, mode os.FileMode) error {
	err := c.mkdir(to, mode|0o700)
	made := err == nil
	if !made && !fs.Is(err, fs.ErrExist) {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var result error
	for _, e := range list {
		err := copyIn(ctx, c, filepath.Join(from, e.Name()), path.Join(to, e.Name()))
		if err := leftOut(err, &result); err != nil {
			return err
		}
	}
	if made {
		result = cmp.Or(c.chmod(to, mode), result)
	}
	return result
}

// A holed writes to an empty file, and leaves holes in it where there are zeros.
type holed struct {
	f    io.WriterAt
	at   int64
	hole bool // what was written last is one
}

var zeros [32 << 10]byte

func (h *holed) Write(p []byte) (int, error) {
	for part := range slices.Chunk(p, len(zeros)) {
		if h.hole = bytes.Equal(part, zeros[:len(part)]); !h.hole {
			if _, err := h.f.WriteAt(part, h.at); err != nil {
				return 0, err
			}
		}
		h.at += int64(len(part))
	}
	return len(p), nil
}

// end gives the file its length: it may end in a hole.
func (h *holed) end() error {
	if !h.hole {
		return nil
	}
	_, err := h.f.WriteAt(zeros[:1], h.at-1)
	return err
}

func copyFileIn(c *tree, from, to string, mode os.FileMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := c.create(to, mode)
	if err != nil {
		return err
	}
	to9p := &holed{f: dst}
	_, err = io.CopyBuffer(to9p, struct{ io.Reader }{src}, make([]byte, 256<<10))
	if err == nil {
		err = to9p.end()
	}
	if err := cmp.Or(err, dst.Close()); err != nil {
		return err
	}
	return c.chmod(to, mode)
}

// copyBack copies from the tree to here. The names come from the guest: one
// that would lead elsewhere is refused, and no link that it made is followed.
func copyBack(ctx context.Context, c *tree, from, to string) error {
	mode, err := c.stat(from)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case mode&os.ModeSymlink != 0:
		target, err := c.readlink(from)
		if err != nil {
			return err
		}
		if here, err := os.Lstat(to); err == nil && here.Mode()&os.ModeSymlink != 0 {
			os.Remove(to)
		}
		return os.Symlink(target, to)
	case mode.IsDir():
		return copyFolderBack(ctx, c, from, to, mode.Perm())
	case !mode.IsRegular():
		return special(from, mode)
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, mode.Perm())
	if err != nil {
		return err
	}
	here := &holed{f: dst}
	err = copyFile(ctx, c, here, from, os.O_RDONLY)
	if err == nil {
		err = here.end()
	}
	return cmp.Or(err, dst.Chmod(mode.Perm()), dst.Close())
}

func copyFolderBack(ctx context.Context, c *tree, from, to string, mode os.FileMode) error {
	err := os.Mkdir(to, mode|0o700)
	made := err == nil
	if !made {
		if here, serr := os.Lstat(to); serr != nil || !here.IsDir() { // not through a link that the guest sent
			return err
		}
	}
	entries, err := c.readDir(from)
	if err != nil {
		return err
	}
	var result error
	for _, e := range entries {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.ContainsAny(e.Name, "/\x00") {
			return fmt.Errorf("%w: %s has a file named %q", fs.ErrInvalid, from, e.Name)
		}
		err := copyBack(ctx, c, path.Join(from, e.Name), filepath.Join(to, e.Name))
		if err := leftOut(err, &result); err != nil {
			return err
		}
	}
	if made {
		result = cmp.Or(os.Chmod(to, mode), result)
	}
	return result
}
