package disk

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestUsed(t *testing.T) {
	dir := t.TempDir()
	measure := func(enough int64) int64 {
		t.Helper()
		n, err := Used(t.Context(), enough, filepath.Join(dir, "a"), filepath.Join(dir, "b"))
		if err != nil {
			t.Error(err)
		}
		return n
	}
	write := func(name string, size int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "elsewhere"} {
		os.Mkdir(filepath.Join(dir, name), 0o755)
	}
	write("elsewhere/big", 1<<20)
	if n := measure(math.MaxInt64); n != 0 {
		t.Errorf("nothing takes %d", n)
	}
	write("a/file", 100<<10)
	os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "a/link"))
	os.Link(filepath.Join(dir, "a/file"), filepath.Join(dir, "a/again"))
	one := measure(math.MaxInt64)
	if one < 100<<10+least || one > 120<<10 {
		t.Errorf("100 KiB take %d", one)
	}
	os.Mkdir(filepath.Join(dir, "b/below"), 0o755)
	write("b/below/file", 200<<10)
	if n := measure(math.MaxInt64); n < one+200<<10 || n > one+220<<10 {
		t.Errorf("300 KiB take %d, 100 did %d", n, one)
	}
	sparse, _ := os.Create(filepath.Join(dir, "b/sparse"))
	sparse.Truncate(1 << 30)
	sparse.Close()
	if n := measure(math.MaxInt64); n > one+230<<10 {
		t.Errorf("with a hole of a GiB it is %d", n)
	}
	for i := range 200 {
		write(fmt.Sprint("a/", i), 0)
	}
	if n := measure(1000 << 10); n < one+400<<10 {
		t.Errorf("200 empty files more take %d", n)
	}
	if n := measure(50 << 10); n <= 50<<10 || n > 50<<10+one {
		t.Errorf("stopped after 50 KiB at %d", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Used(ended, math.MaxInt64, filepath.Join(dir, "a")); err == nil {
		t.Error("went on although nobody waits")
	}
}
