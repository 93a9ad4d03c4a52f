package diff_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hutch/vmm/diff"
)

// A counted context ends after it was asked so often: before each read.
type counted struct {
	context.Context
	left atomic.Int64
}

var errTooOften = errors.New("too many reads")

func (c *counted) Err() error {
	if c.left.Add(-1) < 0 {
		return errTooOften
	}
	return c.Context.Err()
}

func few(t *testing.T) *counted {
	c := &counted{Context: t.Context()}
	c.left.Store(1000)
	return c
}

const tib = 1 << 40

// sparse makes a file of 1 TiB with texts at some offsets.
func sparse(t *testing.T, path string, texts map[int64]string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(tib))
	for off, text := range texts {
		_, err := f.WriteAt([]byte(text), off)
		must(t, err)
	}
}

// Of files with holes, which a guest makes as long as it likes, only what is
// in them is read, to compare them and to find the renamed ones.
func TestSparse(t *testing.T) {
	a, b, _ := sides(t)
	texts := map[int64]string{0: "begin", 1<<30 + 5: "in it", tib - 3: "end"}
	for name, x := range map[string]map[int64]string{
		"none": nil, "same": texts, "zeros": nil, "other": texts, "more": nil, "less": {9 << 30: "x"}, "moved": {1 << 30: "moved"}, "lost": texts,
	} {
		sparse(t, filepath.Join(a, name), x)
	}
	for name, x := range map[string]map[int64]string{
		"none": nil, "same": texts, "zeros": {5 << 30: strings.Repeat("\x00", 600<<10)},
		"other": {0: "begin", 1<<30 + 5: "in IT", tib - 3: "end"}, "more": {tib - 1: "x"}, "less": nil,
		"to": {1 << 30: "moved", 7 << 30: strings.Repeat("\x00", 9000)}, "new": {1 << 30: "other"},
	} {
		sparse(t, filepath.Join(b, name), x)
	}
	got, err := (diff.Bounds{}).Folders(few(t), a, b, "")
	must(t, err)
	if want := "changed less\nremoved lost\nchanged more\nrenamed moved to\nadded new\nchanged other\n"; got != want {
		t.Errorf("difference is\n%s\nwant\n%s", got, want)
	}
}
