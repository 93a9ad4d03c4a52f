package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"hutch/fs"
)

// cp copies a file, or a folder with all in it, into a VM or out of it.
func cp(ctx context.Context, c *tree, args []string) error {
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
		if err := c.mkdir(to, st.Mode().Perm()); err != nil && !fs.Is(err, fs.ErrExist) {
			return err
		}
		list, err := os.ReadDir(from)
		for _, e := range list {
			if err := copyIn(ctx, c, filepath.Join(from, e.Name()), path.Join(to, e.Name())); err != nil {
				return err
			}
		}
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%w: %s is neither a file nor a folder", fs.ErrUnsupported, from)
	}
	return copyFileIn(c, from, to, st.Mode().Perm())
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
	_, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 256<<10))
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
		return fmt.Errorf("%w: %s is neither a file nor a folder", fs.ErrUnsupported, from)
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, mode.Perm())
	if err != nil {
		return err
	}
	err = copyFile(ctx, c, dst, from, os.O_RDONLY)
	return cmp.Or(err, dst.Close())
}

func copyFolderBack(ctx context.Context, c *tree, from, to string, mode os.FileMode) error {
	if err := os.Mkdir(to, mode|0o700); err != nil {
		if here, serr := os.Lstat(to); serr != nil || !here.IsDir() { // not through a link that the guest sent
			return err
		}
	}
	entries, err := c.readDir(from)
	for _, e := range entries {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.ContainsAny(e.Name, "/\x00") {
			return fmt.Errorf("%w: %s has a file named %q", fs.ErrInvalid, from, e.Name)
		}
		if err := copyBack(ctx, c, path.Join(from, e.Name), filepath.Join(to, e.Name)); err != nil {
			return err
		}
	}
	return err
}
