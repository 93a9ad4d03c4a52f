package fs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, sync := range []bool{false, true} {
		for _, text := range []string{"one", "two"} {
			if err := WriteFile(path, []byte(text), sync); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); string(b) != text || err != nil {
				t.Errorf("%q, %v, want %q", b, err, text)
			}
		}
	}
	broken := errors.New("broken")
	err := Replace(path, true, func(f *os.File) error {
		f.WriteString("half of")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("a write that failed: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "two" || err != nil {
		t.Errorf("after a write that failed: %q, %v", b, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b") // which is no pattern
	os.Mkdir(dir, 0o700)
	path := filepath.Join(dir, "f")
	half := Replace(path, false, func(f *os.File) error { return os.Link(f.Name(), f.Name()+"0") })
	if err := errors.Join(half, WriteFile(path, nil, false)); err != nil {
		t.Fatal(err)
	}
	Sweep(dir)
	if entries, err := os.ReadDir(dir); len(entries) != 1 || entries[0].Name() != "f" {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestSameFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	look := func() os.FileInfo {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	WriteFile(path, []byte("one"), false)
	was := look()
	if SameFile(nil, was) || !SameFile(was, look()) {
		t.Error("a file is not what it was, or is what was never looked at")
	}
	WriteFile(path, []byte("two"), false)
	if SameFile(was, look()) {
		t.Error("another file is the same")
	}
}
