package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"hutch/fs"
)

// making holds a token while a disk is made: one at a time.
var making = make(chan struct{}, 1)

const diskPrefix = "disk-"

// Disk returns a file that has the image as an ext4 file system, for virtual
// machines, which read it as a disk. It is made if it is not there yet, with
// mke2fs, beside the image's root; one of what the image was before goes. The
// views of this machine's folders are empty folders there.
func (i Image) Disk(ctx context.Context) (string, error) {
	select {
	case making <- struct{}{}:
		defer func() { <-making }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	m, err := measure(i)
	if err != nil {
		return "", fmt.Errorf("disk of image %q: %w", i.Name, err)
	}
	dir := filepath.Dir(i.Root)
	path := filepath.Join(dir, diskPrefix+m.sum)
	if exists(path) {
		return path, nil
	}
	old, _ := filepath.Glob(filepath.Join(dir, diskPrefix+"*"))
	if err := makeDisk(ctx, i.Root, path+".new", m); err != nil {
		os.Remove(path + ".new")
		return "", fmt.Errorf("disk of image %q: %w", i.Name, err)
	}
	for _, o := range old {
		os.Remove(o) // machines that use it go on to
	}
	return path, os.Rename(path+".new", path)
}

// A measurement is what is to be known of a tree of files to make a disk of it.
type measurement struct {
	sum   string // tells it from every other
	files int64
	bytes int64
}

// measure looks at the files of an image. Names, sizes and times tell what
// they hold: an image's files are replaced, not edited.
func measure(i Image) (measurement, error) {
	var m measurement
	h := sha256.New()
	fmt.Fprintln(h, "ext4 1", i.record.Digest)
	err := filepath.WalkDir(i.Root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		m.files++
		if fi.Mode().IsRegular() {
			m.bytes += (fi.Size() + diskBlock - 1) / diskBlock * diskBlock
		}
		name, _ := filepath.Rel(i.Root, path)
		if fi.IsDir() { // its entries say the rest
			fmt.Fprintf(h, "%q %v\n", name, fi.Mode())
		} else {
			fmt.Fprintf(h, "%q %v %d %d\n", name, fi.Mode(), fi.Size(), fi.ModTime().UnixNano())
		}
		return nil
	})
	m.sum = hex.EncodeToString(h.Sum(nil)[:12])
	return m, err
}

const (
	diskBlock = 4096
	diskInode = 256
)

// makeDisk makes path a disk that just holds the files below root. It is
// never written to again, so it has no journal and no room.
func makeDisk(ctx context.Context, root, path string, m measurement) error {
	inodes := m.files + m.files/64 + 64
	size := m.bytes + m.files*diskBlock/2 + inodes*diskInode
	size += size/16 + 4<<20
	os.Remove(path)
	return mke2fs(ctx, asRoot, "-O", "^has_journal,^resize_inode", "-b", strconv.Itoa(diskBlock), "-I", strconv.Itoa(diskInode),
		"-N", strconv.FormatInt(inodes, 10), "-E", "root_owner=0:0", "-d", root,
		path, strconv.FormatInt(size/diskBlock, 10))
}

// EmptyDisk makes path a disk of so many bytes without any file. On the host it
// takes what is written to it.
func EmptyDisk(ctx context.Context, path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	return mke2fs(ctx, func(*exec.Cmd) {}, "-i", "32768", "-J", "size=32",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", path)
}

// mke2fs makes a file system of the kind ext4, as args say; as changes the
// process that does.
func mke2fs(ctx context.Context, as func(*exec.Cmd), args ...string) error {
	program := ""
	// Not every PATH has its folder, which is one of Homebrew's on macOS.
	for _, dir := range []string{"", "/usr/sbin", "/sbin", "/opt/homebrew/opt/e2fsprogs/sbin", "/usr/local/opt/e2fsprogs/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, "mke2fs")); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return fmt.Errorf("%w: no program mke2fs: install e2fsprogs", fs.ErrUnsupported)
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"-q", "-F", "-t", "ext4", "-m", "0"}, args...)...)
	as(cmd)
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	text, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n")
	return fmt.Errorf("%w: mke2fs: %w: %s", fs.ErrIO, err, text)
}
