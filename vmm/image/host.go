package image

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
)

// viewed are the top-level folders of the machine that hold programs. Where
// one is a link into /usr, the image has the same link.
var viewed = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// Shows says whether the image of the machine has what the machine has at an absolute
// path, be it a link.
func Shows(path string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(viewed, top)
}

// copied are the files of /etc that programs read and that tell nothing of
// the machine's people, network or credentials. Only what everybody may
// read is copied.
var copied = []string{
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
	"ssl/certs", "ssl/openssl.cnf", "ca-certificates.conf", "ca-certificates",
	"pki/tls/certs", "pki/tls/openssl.cnf", "pki/ca-trust/extracted",
	"localtime", "timezone", "locale.alias", "locale.conf", "default/locale",
	"terminfo", "inputrc", "profile", "bash.bashrc", "bashrc", "shells",
	"mime.types", "magic", "magic.mime", "services", "protocols", "rpc", "ethertypes",
	"host.conf", "gai.conf", "login.defs", "os-release", "debian_version", "lsb-release", "redhat-release",
	"fonts", "perl", "python3*", "java-*", "vim", "groff", "manpath.config",
}

// folders are made empty: places to mount on and places to write to.
var folders = []struct {
	name string
	mode os.FileMode
}{
	{"dev", 0o755}, {"proc", 0o555}, {"sys", 0o555}, {"tmp", 0o777 | os.ModeSticky},
	{"run", 0o755}, {"run/hutch", 0o755}, {"workspace", 0o755}, {"opt/hutch/bin", 0o755},
	{"root", 0o700}, {"home", 0o755}, {"mnt", 0o755}, {"srv", 0o755}, {"etc/profile.d", 0o755},
	{"var/lib", 0o755}, {"var/cache", 0o755}, {"var/log", 0o755}, {"var/tmp", 0o777 | os.ModeSticky},
}

// written are the files that the image has in place of the machine's own. The
// last says that the rest is there.
var written = [][2]string{
	{"etc/passwd", "root:x:0:0:root:/root:%s\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"etc/group", "root:x:0:\ntty:x:5:\nstaff:x:50:\nusers:x:100:\nnogroup:x:65534:\n"},
	{"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
	{"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n" +
		"networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n"},
	{"etc/hostname", "hutch\n"},
	{"etc/resolv.conf", ""},
}

// links stand in every image of the machine.
var links = map[string]string{"var/run": "/run", "var/lock": "/run/lock", "etc/mtab": "/proc/self/mounts"}

// host makes the image of the machine in root, or brings it up to date.
func host(root string) (Image, error) {
	img := Image{Name: Host, Kind: "host", Source: "this machine", Root: root}
	if err := skeleton(root); err != nil {
		return Image{}, fmt.Errorf("image host: %w", err)
	}
	for _, name := range viewed {
		if err := img.view(name); err != nil {
			return Image{}, fmt.Errorf("image host: %w", err)
		}
	}
	for _, pattern := range copied {
		paths, _ := filepath.Glob(filepath.Join("/etc", pattern))
		for _, path := range paths {
			if err := refresh(path, filepath.Join(root, path)); err != nil {
				return Image{}, fmt.Errorf("image host: %w", err)
			}
		}
	}
	return img, nil
}

// skeleton makes the folders, links and files that do not come from the machine.
func skeleton(root string) error {
	if isDir(filepath.Join(root, "etc/profile.d")) && exists(filepath.Join(root, "etc/resolv.conf")) {
		return nil
	}
	for _, d := range folders {
		path := filepath.Join(root, d.name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(path, d.mode); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	shell := "/bin/sh"
	if exists("/bin/bash") {
		shell = "/bin/bash"
	}
	for _, f := range written {
		if err := os.WriteFile(filepath.Join(root, f[0]), []byte(strings.Replace(f[1], "%s", shell, 1)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// view makes the image's entry for a top-level folder of the machine: a link
// where the machine has one, else a folder that the machine's is shown at.
func (i *Image) view(name string) error {
	from, to := "/"+name, filepath.Join(i.Root, name)
	if target, err := os.Readlink(from); err == nil {
		return relink(target, to)
	}
	if !isDir(from) {
		return nil
	}
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	i.Binds = append(i.Binds, Bind{from, from})
	return nil
}

// refresh copies from to to unless that has been done since from was last
// changed. What not everybody may read is left out.
func refresh(from, to string) error {
	if target, err := os.Readlink(from); err == nil {
		return relink(target, to)
	}
	src, err := os.Lstat(from)
	if err != nil || src.Mode().Perm()&0o004 == 0 {
		return nil
	}
	if dst, err := os.Lstat(to); err == nil && same(src, dst) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch {
	case src.IsDir():
		return refreshDir(from, to, src)
	case src.Mode().IsRegular():
		return copyFile(from, to, src)
	}
	return nil
}

// same says whether dst is a copy of src: a folder's time changes when
// entries come and go, and package managers replace files, never edit them.
func same(src, dst os.FileInfo) bool {
	return src.Mode() == dst.Mode() && src.ModTime().Equal(dst.ModTime()) && (src.IsDir() || src.Size() == dst.Size())
}

func refreshDir(from, to string, src os.FileInfo) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	stay := make(map[string]bool)
	for _, e := range entries {
		stay[e.Name()] = true
		if err := refresh(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	old, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, e := range old {
		if !stay[e.Name()] {
			if err := os.RemoveAll(filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Chmod(to, src.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, src.ModTime(), src.ModTime())
}

// copyFile puts a copy of from in the place of to in one step, since VMs may
// be reading the old one.
func copyFile(from, to string, src os.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return nil
	}
	defer in.Close()
	return fs.Replace(to, false, func(out *os.File) error {
		_, err := io.Copy(out, in)
		if err == nil {
			err = out.Chmod(src.Mode().Perm())
		}
		return cmp.Or(err, os.Chtimes(out.Name(), src.ModTime(), src.ModTime()))
	})
}

// relink makes to a link to target, in one step.
func relink(target, to string) error {
	if old, err := os.Readlink(to); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	tmp := to + ".new"
	os.Remove(tmp)
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
