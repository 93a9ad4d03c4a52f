// Package kernel finds a Linux kernel to boot guests with, and tells which of
// its modules a guest has to load, in which order.
//
// Debian's kernel packages serve as they are, installed or only unpacked. An
// unpacked one has no modules.dep, as that is made at installation; so what a
// module depends on is read from the module itself.
package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"hutch/fs"
)

// A Kernel is one that can be booted.
type Kernel struct {
	Image   string // its file, boot/vmlinuz-RELEASE
	Modules string // the folder of its modules, lib/modules/RELEASE
	Release string // what uname -r will say
}

const prefix = "vmlinuz-"

// Find returns the kernel whose image is path. If path is empty it returns
// the newest of the first of the folders that has one: in a folder, which is
// / or where a package was unpacked, kernels are boot/vmlinuz-RELEASE.
func Find(path string, folders ...string) (Kernel, error) {
	if path != "" {
		return at(path)
	}
	for _, dir := range folders {
		if k := newest(dir); k.Image != "" {
			return k, nil
		}
	}
	return Kernel{}, fmt.Errorf("%w: no kernel to boot in %s: unpack Debian's linux-image-cloud-%s there (mk kernel), or say kernel PATH",
		fs.ErrNotExist, strings.Join(readable(folders), " or "), runtime.GOARCH)
}

// readable names folders for people.
func readable(folders []string) []string {
	list := make([]string, len(folders))
	for i, dir := range folders {
		list[i] = filepath.Join(dir, "boot")
	}
	return list
}

// newest returns the newest kernel below dir, if there is one.
func newest(dir string) Kernel {
	paths, _ := filepath.Glob(filepath.Join(dir, "boot", prefix+"*"))
	var best Kernel
	for _, path := range paths {
		if k, err := at(path); err == nil && older(best.Release, k.Release) {
			best = k
		}
	}
	return best
}

// at returns the kernel whose image is path.
func at(path string) (Kernel, error) {
	if !filepath.IsAbs(path) {
		return Kernel{}, fmt.Errorf("%w: kernel %q is not an absolute path", fs.ErrInvalid, path)
	}
	release, ok := strings.CutPrefix(filepath.Base(path), prefix)
	if !ok || release == "" {
		return Kernel{}, fmt.Errorf("%w: kernel %s is not called vmlinuz-RELEASE", fs.ErrInvalid, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel: %w", err)
	}
	f.Close()
	top := filepath.Dir(filepath.Dir(path))
	for _, lib := range []string{"lib", "usr/lib"} {
		modules := filepath.Join(top, lib, "modules", release)
		if fi, err := os.Stat(filepath.Join(modules, "kernel")); err == nil && fi.IsDir() {
			return Kernel{path, modules, release}, nil
		}
	}
	return Kernel{}, fmt.Errorf("%w: kernel %s has no modules in %s", fs.ErrNotExist, path, filepath.Join(top, "lib", "modules", release))
}

// older compares releases as people read them: runs of digits are numbers.
func older(a, b string) bool {
	for a != "" && b != "" {
		x, y := chunk(a), chunk(b)
		a, b = a[len(x):], b[len(y):]
		if x == y {
			continue
		}
		if digit(x[0]) && digit(y[0]) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(x) != len(y) {
				return len(x) < len(y)
			}
		}
		if x != y {
			return x < y
		}
	}
	return a == "" && b != ""
}

// chunk returns the run of digits, or of others, that s begins with.
func chunk(s string) string {
	for i := range len(s) {
		if digit(s[i]) != digit(s[0]) {
			return s[:i]
		}
	}
	return s
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
