package folder

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
)

func open(t *testing.T) (string, fs.Node) {
	t.Helper()
	dir := t.TempDir()
	f, err := Open(dir, "work")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return dir, f.Root()
}

func text(t *testing.T, n fs.Node) (string, error) {
	h, err := n.Open(t.Context(), os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer h.Close()
	p := make([]byte, 100)
	k, err := h.ReadAt(t.Context(), p, 0)
	return string(p[:k]), err
}

func create(t *testing.T, dir fs.Node, name, content string) fs.Node {
	t.Helper()
	n, h, err := dir.Create(t.Context(), name, os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt(t.Context(), []byte(content), 0); err != nil {
		t.Fatal(err)
	}
	h.Close()
	return n
}

func TestFiles(t *testing.T) {
	dir, root := open(t)
	if st, err := root.Stat(t.Context()); err != nil || st.Name != "work" || !st.Mode.IsDir() || st.Qid>>62 != 1 {
		t.Errorf("root: %+v, %v", st, err)
	}
	sub, err := root.Mkdir(t.Context(), "sub", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Mkdir(t.Context(), "sub", 0o755); fs.Text(err) != "file already exists: sub" {
		t.Errorf("sub again: %q", fs.Text(err))
	}
	if _, err := sub.Walk(t.Context(), "nope"); fs.Text(err) != "file does not exist: sub/nope" {
		t.Errorf("nope: %q", fs.Text(err))
	}
	a := create(t, sub, "a", "hello")
	if got, err := text(t, a); got != "hello" || err != nil {
		t.Errorf("a is %q, %v", got, err)
	}
	if err := sub.Rename(t.Context(), "a", root, "b"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b")); string(got) != "hello" {
		t.Errorf("on the host %q, %v", got, err)
	}
	list, err := root.List(t.Context())
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name)
	}
	if err != nil || !sort.StringsAreSorted(names) || strings.Join(names, " ") != "b sub" {
		t.Errorf("list %q, %v", names, err)
	}
	b, _ := root.Walk(t.Context(), "b")
	size := uint64(2)
	if err := b.Set(t.Context(), fs.Change{Size: &size}); err != nil {
		t.Error(err)
	}
	if st, _ := b.Stat(t.Context()); st.Size != 2 {
		t.Errorf("truncated to %d", st.Size)
	}
	for _, tt := range []struct {
		name string
		dir  bool
		want error
	}{{"b", true, fs.ErrNotDir}, {"sub", false, fs.ErrIsDir}, {"none", false, fs.ErrNotExist}, {"b", false, nil}, {"sub", true, nil}} {
		if err := root.Remove(t.Context(), tt.name, tt.dir); !fs.Is(err, tt.want) {
			t.Errorf("remove %s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestAppendGoesToTheEnd(t *testing.T) {
	_, root := open(t)
	n := create(t, root, "log", "one\n")
	h, err := n.Open(t.Context(), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.WriteAt(t.Context(), []byte("two\n"), 0)
	if got, _ := text(t, n); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
}

// TestNothingLeadsOut tries every way out of the folder that a guest, which
// writes to it, could prepare.
func TestNothingLeadsOut(t *testing.T) {
	dir, root := open(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"abs": secret, "up": "../../../../../../../../" + secret, "dir": filepath.Dir(secret)} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		n, err := root.Walk(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := text(t, n); err == nil {
			t.Errorf("%s: read %q", name, got)
		}
		if _, err := n.Walk(t.Context(), "secret"); err == nil {
			t.Errorf("%s: walked through", name)
		}
		if _, _, err := root.Create(t.Context(), name, os.O_WRONLY|os.O_TRUNC, 0o644); err == nil {
			t.Errorf("%s: created through", name)
		}
		if target, err := n.Readlink(t.Context()); err != nil || target == "" {
			t.Errorf("%s: readlink %v", name, err)
		}
	}
	// A directory that is swapped for a link after the walk.
	sub, err := root.Mkdir(t.Context(), "sub", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	create(t, sub, "secret", "harmless")
	inner, err := sub.Walk(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if got, err := text(t, inner); err == nil {
		t.Errorf("read %q through a swapped directory", got)
	}
	if err := sub.Remove(t.Context(), "secret", false); err == nil {
		t.Error("removed through a swapped directory")
	}
	if got, _ := os.ReadFile(secret); string(got) != "secret" {
		t.Errorf("the secret is now %q", got)
	}
}

func TestPipesAreNotOpened(t *testing.T) {
	dir, root := open(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := root.Walk(t.Context(), "pipe")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := text(t, n); fs.Errno(err) != syscall.EACCES {
		t.Errorf("open of a pipe: %v", err)
	}
	if _, _, err := root.Create(t.Context(), "pipe", os.O_WRONLY, 0o644); err == nil {
		t.Error("create opened a pipe")
	}
}
