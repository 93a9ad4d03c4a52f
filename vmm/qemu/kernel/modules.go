package kernel

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"hutch/fs"
)

// A Module is one that a guest is to load.
type Module struct {
	Name string
	Data []byte // the ELF file
}

// Load returns the modules called names and all that they depend on, each
// after what it depends on. A name that ends with ? may be missing. What is
// built into the kernel is left out.
func (k Kernel) Load(names ...string) ([]Module, error) {
	l := loader{kernel: k, done: map[string]bool{}}
	if err := l.index(); err != nil {
		return nil, fmt.Errorf("modules of kernel %s: %w", k.Release, err)
	}
	for _, name := range names {
		name, optional := strings.CutSuffix(name, "?")
		if optional && l.files[plain(name)] == "" {
			continue
		}
		if err := l.load(plain(name)); err != nil {
			return nil, fmt.Errorf("modules of kernel %s: %w", k.Release, err)
		}
	}
	return l.list, nil
}

// Has says whether the kernel has the module called name, or has it built in.
func (k Kernel) Has(name string) bool {
	l := loader{kernel: k}
	return l.index() == nil && (l.builtin[name] || l.files[name] != "")
}

// A loader collects modules.
type loader struct {
	kernel  Kernel
	files   map[string]string // by name
	builtin map[string]bool
	done    map[string]bool // loaded, or about to be
	list    []Module
}

// suffixes are those of a module's file.
var suffixes = []string{".ko", ".ko.gz", ".ko.xz", ".ko.zst"}

// index notes which modules there are.
func (l *loader) index() error {
	text, err := os.ReadFile(filepath.Join(l.kernel.Modules, "modules.builtin"))
	if err != nil {
		return err
	}
	l.builtin = parseBuiltin(string(text))
	l.files = make(map[string]string)
	return filepath.WalkDir(filepath.Join(l.kernel.Modules, "kernel"), func(path string, _ os.DirEntry, err error) error {
		if name := moduleName(path); err == nil && name != "" {
			l.files[name] = path
		}
		return err
	})
}

// parseBuiltin reads a modules.builtin: a path a line.
func parseBuiltin(text string) map[string]bool {
	names := make(map[string]bool)
	for line := range strings.Lines(text) {
		if name := moduleName(strings.TrimSpace(line)); name != "" {
			names[name] = true
		}
	}
	return names
}

// moduleName returns the name of the module in the file path, "" if it is none.
func moduleName(path string) string {
	base := filepath.Base(path)
	for _, s := range suffixes {
		if name, ok := strings.CutSuffix(base, s); ok {
			return plain(name)
		}
	}
	return ""
}

// plain returns a module's name as the kernel has it: files may have dashes.
func plain(name string) string { return strings.ReplaceAll(name, "-", "_") }

// load adds name, after what it depends on.
func (l *loader) load(name string) error {
	if l.done[name] || l.builtin[name] {
		return nil
	}
	l.done[name] = true // also ends a circle
	path := l.files[name]
	if path == "" {
		return fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	data, err := unpack(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	needs, err := depends(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, need := range needs {
		if err := l.load(need); err != nil {
			return fmt.Errorf("%s needs %w", name, err)
		}
	}
	l.list = append(l.list, Module{name, data})
	return nil
}

const maxModule = 64 << 20

// unpack returns a module's file without its compression.
func unpack(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	switch filepath.Ext(path) {
	case ".gz":
		r, err = gzip.NewReader(f)
	case ".zst":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			r = z
		}
	case ".xz":
		return unxz(f)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(data) > maxModule {
		err = fmt.Errorf("%w: over %d bytes", fs.ErrTooLarge, maxModule)
	}
	return data, err
}

// unxz has the xz program unpack f.
func unxz(f *os.File) ([]byte, error) {
	cmd := exec.Command("xz", "--decompress", "--stdout")
	cmd.Stdin = f
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("xz: %w", err)
	}
	return data, nil
}

// depends returns the names of the modules that the one in data needs, as
// its section .modinfo has them.
func depends(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: no module: %w", fs.ErrInvalid, err)
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%w: no module: it has no .modinfo", fs.ErrInvalid)
	}
	info, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%w: .modinfo: %w", fs.ErrInvalid, err)
	}
	return parseInfo(info), nil
}

// parseInfo returns what a .modinfo, a list of key=value ended by NUL each,
// says of the modules that are to be loaded before.
func parseInfo(info []byte) []string {
	var names []string
	for field := range bytes.SplitSeq(info, []byte{0}) {
		key, value, _ := strings.Cut(string(field), "=")
		if key != "depends" {
			continue
		}
		for name := range strings.SplitSeq(value, ",") {
			if name = plain(name); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
