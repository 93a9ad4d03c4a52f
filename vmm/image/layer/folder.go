package layer

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Pack writes the files below dir to w as a layer. Equal folders make equal
// layers. Sockets are left out.
func Pack(ctx context.Context, dir string, w io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	p := &packer{root: root, out: tar.NewWriter(w), seen: make(map[[2]uint64]string)}
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			return err
		}
		return p.add(name)
	})
	if err != nil {
		return err
	}
	return p.out.Close()
}

type packer struct {
	root *os.Root
	out  *tar.Writer
	seen map[[2]uint64]string // files with more names than one, by device and inode
}

func (p *packer) add(name string) error {
	st, err := p.root.Lstat(name)
	if err != nil || st.Mode().Type() == fs.ModeSocket {
		return err
	}
	target := ""
	if st.Mode().Type() == fs.ModeSymlink {
		if target, err = p.root.Readlink(name); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(st, target)
	if err != nil {
		return err
	}
	h.Name = name
	h.Uname, h.Gname, h.Format = "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && st.Mode().IsRegular() && s.Nlink > 1 {
		key := [2]uint64{uint64(s.Dev), uint64(s.Ino)}
		if first := p.seen[key]; first != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		}
		p.seen[key] = name
	}
	if h.Typeflag != tar.TypeReg {
		return p.out.WriteHeader(h)
	}
	return p.file(name, h)
}

func (p *packer) file(name string, h *tar.Header) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if c := getCapability(f); c != "" {
		h.PAXRecords = map[string]string{"SCHILY.xattr." + capability: c}
	}
	if err := p.out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyN(p.out, f, h.Size)
	if err == io.EOF {
		return fmt.Errorf("%s was %d bytes and is %d now", name, h.Size, n)
	}
	return err
}
