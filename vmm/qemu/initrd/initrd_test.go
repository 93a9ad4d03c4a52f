package initrd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hutch/relay/boot"
	"hutch/vmm/qemu/kernel"
)

// list reads archives, one after the other, as the kernel does.
func list(t *testing.T, b []byte) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for len(b) > 0 {
		if string(b[:6]) != "070701" {
			t.Fatalf("no entry: %.20q", b)
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(b[6+8*i:14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		size, length := field(6), field(11)
		name := string(b[110 : 110+length-1])
		at := (110 + length + 3) &^ 3
		text := string(b[at : at+size])
		if name != "TRAILER!!!" {
			files[name] = fmt.Sprintf("%o %d:%d %s", field(1), field(9), field(10), text)
		}
		b = b[min(len(b), (at+size+3)&^3):]
	}
	return files
}

func TestArchive(t *testing.T) {
	modules := []kernel.Module{{Name: "b", Data: []byte("bee")}, {Name: "a", Data: []byte("ay")}}
	got := list(t, archive(contents([]byte("program"), modules)))
	want := map[string]string{
		"dev": "40755 0:0 ", "dev/console": "20600 5:1 ", "init": "100755 0:0 program", "modules": "40755 0:0 ",
		"modules/a": "100644 0:0 ay", "modules/b": "100644 0:0 bee", "modules/order": "100644 0:0 b\na\n",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// bare returns a kernel that has all its modules built in.
func bare(t *testing.T) kernel.Kernel {
	t.Helper()
	dir := t.TempDir()
	var builtin strings.Builder
	for _, name := range Modules {
		fmt.Fprintf(&builtin, "kernel/%s.ko\n", strings.TrimSuffix(name, "?"))
	}
	os.Mkdir(filepath.Join(dir, "kernel"), 0o755)
	if err := os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte(builtin.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return kernel.Kernel{Modules: dir, Release: "6.1"}
}

func TestMake(t *testing.T) {
	k, dir := bare(t), t.TempDir()
	guest := filepath.Join(dir, "guest")
	make := func(program string) string {
		t.Helper()
		if err := os.WriteFile(guest, []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
		path, err := Make(filepath.Join(dir, "made"), k, guest)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := make("one")
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	again := make("one")
	after, _ := os.Stat(again)
	if first != again || !os.SameFile(before, after) {
		t.Errorf("made twice: %s and %s", first, again)
	}
	second := make("two")
	if _, err := os.Stat(first); first == second || err == nil {
		t.Errorf("%s is there beside %s", first, second)
	}
	if err := os.Truncate(second, 1); err != nil { // as a host that lost power leaves it
		t.Fatal(err)
	}
	if fi, err := os.Stat(make("two")); err != nil || fi.Size() == 1 {
		t.Errorf("made again: %v", err)
	}
	out := filepath.Join(dir, "out")
	if err := WithConfig(second, out, boot.Config{Hostname: "h", Env: []string{"A=b"}, Shares: []boot.Share{{Name: "work", Path: "/workspace"}}}); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(out)
	files := list(t, data)
	const config = `100600 0:0 {"hostname":"h","env":["A=b"],"image":"","layer":"","shares":[{"name":"work","path":"/workspace"}]}`
	if files["config"] != config || files["init"] != "100755 0:0 two" {
		t.Errorf("with config: %q", files)
	}
	if fi, _ := os.Stat(out); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
	if _, err := Make(dir, k, filepath.Join(dir, "nothing")); err == nil || !strings.Contains(err.Error(), "no guest program") {
		t.Errorf("without a program: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "made", ".new-*")); len(left) > 0 || bytes.Contains(data, []byte("one")) {
		t.Errorf("left: %q", left)
	}
}
