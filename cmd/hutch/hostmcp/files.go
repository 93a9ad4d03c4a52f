package hostmcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"unicode/utf8"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// The encodings of a file's content.
const (
	utf8Text   = "utf-8"
	base64Text = "base64"
)

// maxPart is the most of a file that one call gives, in bytes. A result has it
// twice, and clients take lines of 16 MiB.
const maxPart = 4 << 20

type (
	fileRead struct {
		Path string `json:"path"`
		page
	}
	page struct {
		Content    string `json:"content"`
		Encoding   string `json:"encoding"`
		Size       int64  `json:"size"`
		Offset     int64  `json:"offset"`
		NextOffset int64  `json:"next_offset,omitempty"` // where to read on; none: that is all
	}
	fileWritten struct {
		Path  string `json:"path"`
		Bytes int    `json:"bytes"`
	}
)

// treePath returns where a file of a sandbox is in the tree. What leads
// up from / or /workspace stays there.
func treePath(vm, name string) string {
	if !path.IsAbs(name) {
		name = "/workspace/" + strings.TrimPrefix(path.Clean("/"+name), "/")
	}
	name = path.Clean(name)
	if rest, ok := strings.CutPrefix(name+"/", "/workspace/"); ok {
		return path.Join(vm, "work", rest)
	}
	return path.Join(vm, "root", name)
}

// guestPath returns a file's absolute path in its sandbox.
func guestPath(name string) string {
	if !path.IsAbs(name) {
		return path.Join("/workspace", path.Clean("/"+name))
	}
	return path.Clean(name)
}

// maxLinks is how many links may lead from one to the next.
const maxLinks = 40

// resolved does something to a file of a sandbox, which has none beside its
// workspace unless it runs.
func (c *call) resolved(ctx context.Context, vm, name string, do func(name string) error) error {
	if p := path.Clean(name); p == ".." || strings.HasPrefix(p, "../") {
		return fmt.Errorf("%w: path %q leads out of /workspace: give an absolute path", fs.ErrInvalid, name)
	}
	err := c.linked(ctx, vm, name, do)
	if err == nil || strings.HasPrefix(treePath(vm, name), path.Join(vm, "work")) {
		return err
	}
	if status, serr := c.t.text(ctx, vm+"/status"); serr == nil && !strings.HasPrefix(status, "running\n") {
		return fmt.Errorf("%w: vm %q is not running, and has no files but those of /workspace: resume starts it", fs.ErrBusy, path.Base(vm))
	}
	return err
}

// linked does something to a file at the end of the links that its path goes
// through: 9P leaves it to clients to follow them.
func (c *call) linked(ctx context.Context, vm, name string, do func(name string) error) error {
	err := do(treePath(vm, name))
	switch fs.Errno(err) {
	case syscall.ELOOP, syscall.EACCES, syscall.ENOTDIR, syscall.ENOENT: // as of a link, or of what is behind one
	default:
		return err
	}
	end, lerr := c.follow(ctx, vm, guestPath(name))
	if lerr != nil || end == guestPath(name) {
		return err
	}
	return do(treePath(vm, end))
}

// follow returns the path that a path leads to. What is not there may be made.
func (c *call) follow(ctx context.Context, vm, name string) (string, error) {
	at, rest := "/", wire.Path(name)
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		st, err := c.t.stat(ctx, treePath(vm, next))
		if errors.Is(err, fs.ErrNotExist) {
			return path.Join(append([]string{next}, rest[1:]...)...), nil
		}
		if err != nil {
			return "", err
		}
		rest = rest[1:]
		if st.Mode&os.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		target, err := c.t.readlink(ctx, treePath(vm, next))
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "/"
		}
		whole := path.Join(append([]string{at, target}, rest...)...)
		at, rest = "/", wire.Path(whole)
	}
	return at, nil
}

func (c *call) readFile(ctx context.Context) (any, error) {
	dir := c.dir()
	give, err := c.take(ctx, c.args.number("limit"))
	if err != nil {
		return nil, err
	}
	defer give()
	var r fileRead
	err = c.resolved(ctx, dir, c.args.text("path"), func(name string) error {
		off := int64(c.args.number("offset"))
		part, size, err := c.t.part(ctx, name, off, c.args.number("limit"))
		if err != nil {
			return err
		}
		r.Path = guestPath(c.args.text("path"))
		r.page, err = c.page(part, off, size)
		return err
	})
	return r, err
}

// page is a part, from off on, of size bytes that was read for a call, in the
// encoding that it wants, or one that fits.
func (c *call) page(part []byte, off, size int64) (page, error) {
	encoding := c.args.text("encoding")
	r := page{Size: size, Offset: off}
	end := r.Offset + int64(len(part))
	if encoding != base64Text {
		if whole := wholeRunes(part); end < r.Size && utf8.Valid(part[:whole]) {
			part, end = part[:whole], r.Offset+int64(whole)
		}
		switch {
		case utf8.Valid(part):
			r.Content, r.Encoding = string(part), utf8Text
		case encoding == utf8Text:
			return page{}, fmt.Errorf("%w: %q is not UTF-8 text: ask for base64", fs.ErrInvalid, cmp.Or(c.args.text("path"), c.args.text("stream")))
		}
	}
	if r.Encoding == "" {
		r.Content, r.Encoding = base64.StdEncoding.EncodeToString(part), base64Text
	}
	if end < r.Size {
		r.NextOffset = end
	}
	return r, nil
}

// wholeRunes returns how much of p is there without a rune that is cut off at
// its end.
func wholeRunes(p []byte) int {
	for i := 1; i <= min(len(p), utf8.UTFMax-1); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) && len(p) > i {
				return len(p) - i
			}
			break
		}
	}
	return len(p)
}

// part reads a part of a file, and tells how long the whole is.
func (t *tree) part(ctx context.Context, name string, off int64, limit int) (part []byte, size int64, err error) {
	f, err := t.open(ctx, name, os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	defer f.close()
	st, err := f.f.Stat(ctx)
	if err != nil {
		return nil, 0, t.failed(ctx, "stat", name, err)
	}
	if st.Mode.IsDir() {
		return nil, 0, fmt.Errorf("%w: %s", fs.ErrIsDir, name)
	}
	f.off = off
	part, err = f.part(ctx, int64(limit))
	switch {
	case len(part) == 0:
		return part, min(f.off, int64(st.Size)), err
	case len(part) < limit:
		return part, f.off, err
	}
	return part, max(int64(st.Size), f.off), err
}

func (c *call) writeFile(ctx context.Context) (any, error) {
	content := []byte(c.args.text("content"))
	if c.args.text("encoding") == base64Text {
		var err error
		if content, err = base64.StdEncoding.DecodeString(c.args.text("content")); err != nil {
			return nil, fmt.Errorf("%w: content is not base64: %w", fs.ErrInvalid, err)
		}
	}
	err := c.resolved(ctx, c.dir(), c.args.text("path"), func(name string) error {
		err := c.write(ctx, name, content)
		if errors.Is(err, fs.ErrNotExist) {
			if err := c.makeFolders(ctx, path.Dir(name)); err != nil {
				return err
			}
			err = c.write(ctx, name, content)
		}
		return err
	})
	return fileWritten{guestPath(c.args.text("path")), len(content)}, err
}

func (c *call) write(ctx context.Context, name string, content []byte) error {
	if !c.args.flag("append") {
		return c.t.store(ctx, name, content, 0o644)
	}
	f, err := c.t.appendTo(ctx, name)
	if err != nil {
		return err
	}
	return f.finish(ctx, content)
}

// appendTo opens a file to be written at its end, and makes it if need be.
func (t *tree) appendTo(ctx context.Context, name string) (*file, error) {
	f, err := t.open(ctx, name, os.O_WRONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return t.create(ctx, name, 0o644)
	}
	if err != nil {
		return nil, err
	}
	st, err := f.f.Stat(ctx)
	if err != nil {
		f.close()
		return nil, t.failed(ctx, "stat", name, err)
	}
	f.off = int64(st.Size)
	return f, nil
}

// makeFolders makes a folder of a sandbox and those that lead to it.
func (c *call) makeFolders(ctx context.Context, dir string) error {
	if st, err := c.t.stat(ctx, dir); err == nil {
		if !st.Mode.IsDir() {
			return fmt.Errorf("%w: %s", fs.ErrNotDir, dir)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) || len(wire.Path(dir)) <= 3 { // vm/NAME/work has to be there
		return err
	}
	if err := c.makeFolders(ctx, path.Dir(dir)); err != nil {
		return err
	}
	if err := c.t.mkdir(ctx, dir); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
