package guest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
)

func TestRoot(t *testing.T) {
	p := newPair(t)
	ctx, dir := t.Context(), t.TempDir()
	d := walk(t, p.g.Root(), dir)
	f, h, err := d.Create(ctx, "f", os.O_RDWR, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789"), 100<<10)
	if n, err := h.WriteAt(ctx, text, 0); n != len(text) || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	p.connect() // an open file goes on
	s := &stream{h: h, ctx: ctx}
	if b, err := io.ReadAll(s); !bytes.Equal(b, text) || err != nil {
		t.Errorf("read %d, %v", len(b), err)
	}
	if err := h.Sync(ctx); err != nil {
		t.Error(err)
	}
	h.Close()
	size := uint64(5)
	if err := f.Set(ctx, fs.Change{Size: &size}); err != nil {
		t.Error(err)
	}
	if st, err := f.Stat(ctx); st.Size != 5 || st.Mode != 0o640 || st.Name != "f" || st.Qid>>63 != 1 || err != nil {
		t.Errorf("stat %+v, %v", st, err)
	}
	var room syscall.Statfs_t
	if err := syscall.Statfs("/", &room); err != nil {
		t.Fatal(err)
	}
	if sp, err := fs.SpaceOf(ctx, f); sp.Blocks != room.Blocks || sp.Block != uint32(room.Bsize) || err != nil {
		t.Errorf("space %+v, %v, want %+v", sp, err, room)
	}
	deep := d
	for i := range 20 { // more than one walk takes
		if deep, err = deep.Mkdir(ctx, fmt.Sprint("d", i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Rename(ctx, "f", deep, "g"); err != nil {
		t.Error(err)
	}
	g, err := deep.Walk(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Link(ctx, "hard", g); err != nil {
		t.Error(err)
	}
	l, err := d.Symlink(ctx, "soft", "hard")
	if err != nil {
		t.Fatal(err)
	}
	if to, err := l.Readlink(ctx); to != "hard" || err != nil {
		t.Errorf("link to %q, %v", to, err)
	}
	if _, err := l.Open(ctx, os.O_RDONLY); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opened a link: %v", err)
	}
	list, err := d.List(ctx)
	if err != nil || len(list) != 3 || list[0].Name != "d0" || !list[0].Mode.IsDir() || list[2].Mode.Type() != os.ModeSymlink {
		t.Errorf("list %v, %v", list, err)
	}
	if err := d.Remove(ctx, "d0", true); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotEmpty) {
		t.Errorf("removed what is not empty: %v", err)
	}
	if err := d.Remove(ctx, "hard", false); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "d0/d1/d2/d3/d4/d5/d6/d7/d8/d9/d10/d11/d12/d13/d14/d15/d16/d17/d18/d19/g")); string(b) != "01234" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := d.Walk(ctx, "nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("walk to nothing: %v", err)
	}
}

func walk(t testing.TB, n fs.Node, path string) fs.Node {
	t.Helper()
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		var err error
		if n, err = n.Walk(t.Context(), name); err != nil {
			t.Fatalf("walk %s: %v", path, err)
		}
	}
	return n
}
