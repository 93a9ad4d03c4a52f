package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hutch/fs"
)

func TestOlder(t *testing.T) {
	sorted := []string{"5.10.0-9-amd64", "5.10.0-30-amd64", "6.1.0-9-amd64", "6.1.0-9-cloud-amd64", "6.1.0-56-amd64", "6.12.1", "6.12.01x", "6.12.2", "10.0"}
	for i, a := range sorted {
		for j, b := range sorted {
			if older(a, b) != (i < j) {
				t.Errorf("older(%q, %q) is %v", a, b, i >= j)
			}
		}
	}
}

// install puts a kernel and its modules below dir.
func install(t *testing.T, dir, lib, release string, modules map[string]string) string {
	t.Helper()
	at := filepath.Join(dir, lib, "modules", release)
	for _, d := range []string{filepath.Join(dir, "boot"), filepath.Join(at, "kernel", "fs")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		filepath.Join(dir, "boot", "vmlinuz-"+release): "a kernel",
		filepath.Join(at, "modules.builtin"):           "kernel/fs/ext4/ext4.ko\nkernel/drivers/virtio-ring.ko\n\n",
	}
	for name, info := range modules {
		files[filepath.Join(at, "kernel", "fs", name)] = string(object(info))
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "boot", "vmlinuz-"+release)
}

// object returns an ELF file with a .modinfo.
func object(info string) []byte {
	const head, section = 64, 64
	names := "\x00.modinfo\x00.shstrtab\x00"
	le := binary.LittleEndian
	b := []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	b = le.AppendUint16(b, 1)    // relocatable
	b = le.AppendUint16(b, 0x3e) // x86-64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, uint64(head+len(info)+len(names))) // sections
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{head, 0, 0, section, 3, 2} {
		b = le.AppendUint16(b, n)
	}
	b = append(b, info+names...)
	b = append(b, make([]byte, section)...)
	for _, s := range []struct{ name, kind, at, size int }{
		{1, 1, head, len(info)}, {10, 3, head + len(info), len(names)},
	} {
		b = le.AppendUint32(b, uint32(s.name))
		b = le.AppendUint32(b, uint32(s.kind))
		for _, n := range []int{0, 0, s.at, s.size} {
			b = le.AppendUint64(b, uint64(n))
		}
		b = append(b, make([]byte, 8)...)
		b = le.AppendUint64(le.AppendUint64(b, 1), 0)
	}
	return b
}

func TestFind(t *testing.T) {
	empty, old, both := t.TempDir(), t.TempDir(), t.TempDir()
	path := install(t, old, "lib", "5.1", nil)
	install(t, both, "usr/lib", "6.9", nil)
	install(t, both, "lib", "6.10", nil)
	os.WriteFile(filepath.Join(both, "boot", "vmlinuz-9.9"), []byte("without modules"), 0o644)
	for _, c := range []struct {
		path    string
		folders []string
		release string
	}{
		{"", []string{empty, old, both}, "5.1"},
		{"", []string{both, old}, "6.10"},
		{path, []string{both}, "5.1"},
		{filepath.Join(both, "boot", "vmlinuz-6.9"), nil, "6.9"},
	} {
		k, err := Find(c.path, c.folders...)
		if err != nil || k.Release != c.release || filepath.Base(k.Modules) != c.release {
			t.Errorf("Find(%q, %q) is %+v, %v; want %s", c.path, c.folders, k, err, c.release)
		}
	}
	for _, c := range []struct {
		path string
		kind error
		text string
	}{
		{"", fs.ErrNotExist, empty + "/boot"},
		{"", fs.ErrNotExist, "linux-image-cloud-"},
		{"boot/vmlinuz-1", fs.ErrInvalid, "not an absolute path"},
		{"/boot/bzImage", fs.ErrInvalid, "vmlinuz-RELEASE"},
		{filepath.Join(empty, "vmlinuz-1"), fs.ErrNotExist, "kernel"},
		{filepath.Join(both, "boot", "vmlinuz-9.9"), fs.ErrNotExist, "no modules"},
	} {
		_, err := Find(c.path, empty)
		if !fs.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Find(%q): %v; want %v with %q", c.path, err, c.kind, c.text)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "lib", "6.1", map[string]string{
		"overlay.ko":               "name=overlay\x00depends=\x00",
		"virtio-pci.ko":            "license=GPL\x00depends=virtio_pci_modern_dev,virtio-ring,virtio\x00vermagic=6.1\x00",
		"virtio_pci_modern_dev.ko": "depends=\x00", "virtio.ko": "depends=\x00",
		"a.ko": "depends=b\x00", "b.ko": "depends=a\x00",
		"lost.ko": "depends=nowhere\x00",
	})
	k, err := Find("", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ names, want string }{
		{"overlay", "overlay"},
		{"virtio_pci overlay virtio", "virtio_pci_modern_dev virtio virtio_pci overlay"},
		{"virtio-pci missing? ext4", "virtio_pci_modern_dev virtio virtio_pci"},
		{"a", "b a"},
	} {
		list, err := k.Load(strings.Fields(c.names)...)
		var got []string
		for _, m := range list {
			got = append(got, m.Name)
		}
		if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("Load(%s) is %q, %v; want %s", c.names, got, err, c.want)
		}
	}
	for _, names := range []string{"missing", "lost"} {
		if _, err := k.Load(names); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Load(%s): %v", names, err)
		}
	}
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"a.ko": "module", "b.ko.gz": "\x1f\x8b\b\x00\x00\x00\x00\x00\x00\x03\xcb\xcdO)\xcdI\x05\x00\xfe\xa2\xd2\xbc\x06\x00\x00\x00",
		"c.ko.zst": "\x28\xb5\x2f\xfd\x20\x06\x31\x00\x00module",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := unpack(path); name == "b.ko.gz" && err != nil {
			t.Logf("%s: %v", name, err)
		} else if err != nil || string(got) != "module" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzDepends(f *testing.F) {
	f.Add(object("depends=a,b-c\x00depends=a\x00"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		names, err := depends(data)
		if err != nil && !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("kind of %v", err)
		}
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, "-,\x00") {
				t.Errorf("a module called %q", name)
			}
		}
	})
}

func FuzzInfo(f *testing.F) {
	f.Add([]byte("alias=x\x00depends=a,b-c\x00softdep=pre: d"))
	f.Fuzz(func(t *testing.T, info []byte) {
		got, want := parseInfo(info), []string(nil)
		for _, field := range bytes.Split(info, []byte{0}) {
			if value, ok := bytes.CutPrefix(field, []byte("depends=")); ok {
				for _, name := range strings.Split(plain(string(value)), ",") {
					if name != "" && !slices.Contains(want, name) {
						want = append(want, name)
					}
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", info, got, want)
		}
	})
}

func FuzzBuiltin(f *testing.F) {
	f.Add("kernel/fs/ext4/ext4.ko\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range parseBuiltin(text) {
			if name == "" || strings.ContainsAny(name, "/-\n") {
				t.Errorf("a module called %q", name)
			}
		}
	})
}
