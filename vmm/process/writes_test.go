package process

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestWrites(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	name := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	fi, _ := f.Stat()
	st := fi.Sys().(*syscall.Stat_t)
	writes := func() bool { return Writes(os.Getpid(), uint64(st.Dev), st.Ino) }
	if !writes() {
		t.Error("not found")
	}
	f.Close()
	if f, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if writes() {
		t.Error("one that is read is taken for written")
	}
}
