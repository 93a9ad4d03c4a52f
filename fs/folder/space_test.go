package folder

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

func TestSpace(t *testing.T) {
	dir, root := open(t)
	file, h, err := root.Create(t.Context(), "file", 0, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Join(dir, "file"), &st); err != nil {
		t.Fatal(err)
	}
	for _, n := range []fs.Node{root, file} {
		sp, err := fs.SpaceOf(t.Context(), n)
		if err != nil || sp.Block != uint32(st.Bsize) || sp.Blocks != st.Blocks || sp.Files != st.Files {
			t.Errorf("%T: %+v, %v; statfs says %+v", n, sp, err, st)
		}
	}
}
