package layer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/need"
	. "hutch/vmm/image/imagetest"
	"hutch/vmm/image/layer"
)

const plenty = 1 << 40

func unpack(t testing.TB, data []byte) (string, layer.Notes, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layer")
	n, err := layer.Unpack(t.Context(), bytes.NewReader(data), dir, layer.NewBudget(plenty, plenty))
	return dir, n, err
}

// merged returns the root file system of the layers, the lowest first.
func merged(t testing.TB, layers ...[]byte) (string, error) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "rootfs")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, l := range layers {
		dir, _, err := unpack(t, l)
		if err != nil {
			return root, err
		}
		dirs = append(dirs, dir)
	}
	return root, layer.Merge(t.Context(), dirs, root)
}

// list returns what is in root: "d/" a folder, "f=text" a file, "l->target" a link.
func list(t testing.TB, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case name == ".":
		case d.IsDir():
			names = append(names, name+"/")
		case d.Type() == os.ModeSymlink:
			target, _ := os.Readlink(path)
			names = append(names, name+"->"+target)
		default:
			text, _ := os.ReadFile(path)
			names = append(names, name+"="+string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestMerge(t *testing.T) {
	base := Tar(Dir("a", 0o755), File("a/1", "one"), File("a/2", "two"), Dir("a/d", 0o755), File("a/d/3", "three"), Symlink("run", "/var/run"), Dir("var/run", 0o755))
	for _, c := range []struct {
		name   string
		layers [][]byte
		want   string
	}{
		{"one", [][]byte{base}, "a/ a/1=one a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"over", [][]byte{base, Tar(File("a/1", "new"))}, "a/ a/1=new a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"whiteout of a file", [][]byte{base, Tar(File("a/.wh.1", ""))}, "a/ a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"whiteout of a folder", [][]byte{base, Tar(File(".wh.a", ""))}, "run->/var/run var/ var/run/"},
		{"whiteout and again", [][]byte{base, Tar(File("a/.wh.d", ""), File("a/d", "file"))}, "a/ a/1=one a/2=two a/d=file run->/var/run var/ var/run/"},
		{"whiteout of nothing", [][]byte{base, Tar(File("no/such/.wh.x", ""), File("a/1/.wh.x", ""))}, "a/ a/1=one a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"whiteout of a link, not of where it leads", [][]byte{base, Tar(File(".wh.run", ""))}, "a/ a/1=one a/2=two a/d/ a/d/3=three var/ var/run/"},
		{"opaque", [][]byte{base, Tar(Dir("a", 0o755), File("a/new", "n"), File("a/.wh..wh..opq", ""))}, "a/ a/new=n run->/var/run var/ var/run/"},
		{"all opaque", [][]byte{base, Tar(File(".wh..wh..opq", ""), File("only", ""))}, "only="},
		{"notes of aufs", [][]byte{base, Tar(Dir(".wh..wh.plnk", 0o755), File(".wh..wh.aufs", ""))}, "a/ a/1=one a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"through a link below", [][]byte{base, Tar(File("run/pid", "7"))}, "a/ a/1=one a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/ var/run/pid=7"},
		{"whiteout through a link below", [][]byte{base, Tar(File("var/run/x", "x")), Tar(File("run/.wh.x", ""))}, "a/ a/1=one a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"folder for a link", [][]byte{base, Tar(Dir("run", 0o755), File("run/pid", "7"))}, "a/ a/1=one a/2=two a/d/ a/d/3=three run/ run/pid=7 var/ var/run/"},
		{"link for a folder", [][]byte{base, Tar(Symlink("a", "var"))}, "a->var run->/var/run var/ var/run/"},
		{"file for a folder", [][]byte{base, Tar(File("a", "f"))}, "a=f run->/var/run var/ var/run/"},
		{"folder for a file", [][]byte{base, Tar(File("a/1/x", "x"))}, "a/ a/1/ a/1/x=x a/2=two a/d/ a/d/3=three run->/var/run var/ var/run/"},
		{"hard link into the layer below", [][]byte{base, Tar(Link("b", "a/1"))}, "a/ a/1=one a/2=two a/d/ a/d/3=three b=one run->/var/run var/ var/run/"},
		{"later entries win", [][]byte{Tar(File("x", "1"), File("x", "2"), Dir("y", 0o755), File("y/z", ""), File("y", "3"))}, "x=2 y=3"},
		{"names", [][]byte{Tar(File("/abs", "1"), File("./dot//x", "2"), File("a/../up", "3"), File("\xff\xfe", "4"))}, "abs=1 dot/ dot/x=2 up=3 \xff\xfe=4"},
		{"hard link over itself", [][]byte{Tar(File("x", "1"), Link("x", "x"), Link("./x", "/x"))}, "x=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := merged(t, c.layers...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(list(t, root), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestHostile unpacks what tries to reach out of the image: a file beside it
// must stay as it is, and nothing must be made there.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("d/", 300) + "x"
	for _, c := range []struct {
		name    string
		entries []Entry
		err     string // "" if it stays inside
	}{
		{"dots", []Entry{File("../evil", "x")}, `entry "../evil": invalid argument: it leaves the image`},
		{"dots in the middle", []Entry{File("a/../../evil", "x")}, "leaves the image"},
		{"only dots", []Entry{Dir("..", 0o755)}, "leaves the image"},
		{"root is a file", []Entry{File("a/..", "x")}, "the root of an image is a folder"},
		{"root is a link", []Entry{Symlink(".", "/etc")}, "the root of an image is a folder"},
		{"absolute link", []Entry{Symlink("a", "$OUT"), File("a/evil", "x")}, ""},
		{"relative link", []Entry{Symlink("a", "../../../../../../../../$OUT"), File("a/evil", "x")}, ""},
		{"link through links", []Entry{Symlink("a", "."), Symlink("a/b", ".."), Symlink("a/b/c", "../.."), File("a/b/c/evil", "x")}, ""},
		{"link made anew", []Entry{Dir("a", 0o755), File("a/x", ""), Symlink("a", "$OUT"), File("a/evil", "x"), File("a/secret", "new")}, ""},
		{"link loop", []Entry{Symlink("a", "b"), Symlink("b", "a"), File("a/x", "")}, "too many links"},
		{"link to itself and on", []Entry{Symlink("a", "a/a/a"), File("a/x", "")}, "too many links"},
		{"write through a link", []Entry{Symlink("a", "$OUT/secret"), File("a", "new")}, ""},
		{"hard link out", []Entry{Link("a", "../../secret")}, "leaves the image"},
		{"hard link, absolute", []Entry{Link("a", "$OUT/secret"), File("a", "new")}, ""},
		{"hard link through a link", []Entry{Symlink("l", "$OUT"), Link("a", "l/secret"), File("a", "new")}, ""},
		{"hard link to a link", []Entry{Symlink("l", "$OUT/secret"), Link("a", "l"), File("a", "new")}, ""},
		{"hard link to a folder", []Entry{Dir("d", 0o755), Link("a", "d")}, "hard link to the folder"},
		{"whiteout outside", []Entry{File("../.wh.secret", "")}, "leaves the image"},
		{"whiteout of dots", []Entry{File(".wh...", "")}, "whiteout of no file"},
		{"whiteout of a dot", []Entry{File("a/.wh..", "")}, "whiteout of no file"},
		{"whiteout of nothing", []Entry{File("a/.wh.", "")}, "whiteout of no file"},
		{"whiteout through a link", []Entry{Symlink("l", "$OUT"), File("l/.wh.secret", "")}, ""},
		{"opaque through a link", []Entry{Symlink("l", "$OUT"), File("l/.wh..wh..opq", "")}, ""},
		{"mode through a link", []Entry{Symlink("l", "$OUT/secret"), Dir("l", 0o777)}, ""},
		{"deep", []Entry{File(deep, "")}, "more than 255 folders deep"},
		{"deep by links", []Entry{Symlink("l", strings.Repeat("d/", 200)), File("l/"+deep[200:], "")}, "more than 255 folders deep"},
		{"long name", []Entry{File(strings.Repeat("x", 300), "")}, "file name too long"},
		{"file on the way", []Entry{File("f", ""), File("f/x", "")}, "passes through a file"},
		{"link to nothing", []Entry{Symlink("l", "")}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			secret := filepath.Join(out, "secret")
			Write(t, secret, []byte("secret"))
			for i := range c.entries {
				c.entries[i].Name = strings.ReplaceAll(c.entries[i].Name, "$OUT", out)
				c.entries[i].Linkname = strings.ReplaceAll(c.entries[i].Linkname, "$OUT", out)
			}
			top := t.TempDir()
			dir, root := filepath.Join(top, "layer"), filepath.Join(top, "root")
			os.Mkdir(root, 0o755)
			_, err := layer.Unpack(t.Context(), bytes.NewReader(Tar(c.entries...)), dir, layer.NewBudget(plenty, plenty))
			if err == nil {
				err = layer.Merge(t.Context(), []string{dir}, root)
			}
			if strings.HasPrefix(c.name, "hard link") && c.err == "" && err != nil {
				err = nil // refused by Merge: there is no such file in the image
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if got := list(t, out); !slices.Equal(got, []string{"secret=secret"}) {
				t.Errorf("outside there is %v", got)
			}
			if st, _ := os.Stat(secret); st.Mode() != 0o644 || st.Sys().(*syscall.Stat_t).Nlink != 1 {
				t.Errorf("the file outside is %v", st.Mode())
			}
			if got, _ := os.ReadDir(top); len(got) != 2 {
				t.Errorf("beside the layer there is %v", got)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	whole := Tar(File("a", strings.Repeat("x", 5000)), File("b", "y"))
	for name, data := range map[string][]byte{
		"truncated in a file": whole[:2000], "truncated in a header": whole[:300], "no tar": bytes.Repeat([]byte("junk"), 1000),
	} {
		_, _, err := unpack(t, data)
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := layer.Unpack(ctx, bytes.NewReader(whole), filepath.Join(t.TempDir(), "l"), layer.NewBudget(plenty, plenty))
	if err == nil || err.Error() != "enough" {
		t.Errorf("cancelled: %v", err)
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		bytes, entries int64
		err            string
	}{
		{1000, 10, ""},
		{999, 10, "invalid argument: image is larger than 999 bytes"},
		{1000, 2, "invalid argument: image has more than 2 files"},
	} {
		data := Tar(File("a", strings.Repeat("x", 500)), File("d/b", strings.Repeat("x", 500))) // and d
		_, err := layer.Unpack(t.Context(), bytes.NewReader(data), filepath.Join(t.TempDir(), "l"), layer.NewBudget(c.bytes, c.entries))
		if (err == nil) != (c.err == "") || err != nil && !strings.HasSuffix(err.Error(), c.err) {
			t.Errorf("%d bytes, %d entries: %v", c.bytes, c.entries, err)
		}
	}
}

func TestSparse(t *testing.T) {
	const hole = 64 << 20
	body := strings.Repeat("\x00", hole) + "x" + strings.Repeat("\x00", hole)
	dir, n, err := unpack(t, Tar(File("s", body), File("zero", strings.Repeat("\x00", 5000)), File("short", "\x00")))
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(dir, "tree", "s"))
	if err != nil || st.Size() != 2*hole+1 || n.Size != 2*hole+1+5001 {
		t.Errorf("size %v, %v, in all %d", st.Size(), err, n.Size)
	}
	if blocks := st.Sys().(*syscall.Stat_t).Blocks; blocks > 64 {
		t.Errorf("%d blocks are used", blocks)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "tree", "s")); string(got) != body {
		t.Error("the contents are not the same")
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "tree", "zero")); len(got) != 5000 {
		t.Errorf("a file of zeros has %d bytes", len(got))
	}
}

func TestAttributes(t *testing.T) {
	when := time.Unix(1234567890, 0)
	of := func(e Entry) Entry { e.ModTime, e.Uid, e.Gid = when, 12, 34; return e }
	root, err := merged(t, Tar(of(Dir("d", 0o555)), of(File("d/f", "x")), of(Entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755}, Body: "x"}), of(Symlink("l", "su"))),
		Tar(File("d/g", "y")), Tar(Link("h", "su"), Device("dev/null"), fifo("p")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"d": os.ModeDir | 0o555, "d/f": 0o644, "su": 0o755 | os.ModeSetuid, "l": os.ModeSymlink | 0o777} {
		st, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			want &^= os.ModeSetuid
			if want.IsDir() {
				want |= 0o700
			}
		}
		if st.Mode() != want || !st.ModTime().Equal(when) {
			t.Errorf("%s is %v of %v, want %v of %v", name, st.Mode(), st.ModTime(), want, when)
		}
		if s := st.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (s.Uid != 12 || s.Gid != 34) {
			t.Errorf("%s is of %d:%d", name, s.Uid, s.Gid)
		}
	}
	a, _ := os.Stat(filepath.Join(root, "su"))
	b, _ := os.Stat(filepath.Join(root, "h"))
	if !os.SameFile(a, b) {
		t.Error("a hard link is a file of its own")
	}
	_, n, err := unpack(t, Tar(Device("null"), fifo("p"), File("f", "")))
	if err != nil || n.Skipped != 2 || n.Entries != 3 {
		t.Errorf("notes %+v, %v", n, err)
	}
}

func fifo(name string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeFifo, Name: name, Mode: 0o644}}
}

func TestPack(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "a/b"), 0o755)
	Write(t, filepath.Join(dir, "a/b/f"), []byte("text"))
	Write(t, filepath.Join(dir, "\xff"), []byte("no UTF-8"))
	os.Link(filepath.Join(dir, "a/b/f"), filepath.Join(dir, "a/g"))
	os.Symlink("b/f", filepath.Join(dir, "a/l"))
	syscall.Mkfifo(filepath.Join(dir, "p"), 0o644)
	var one, two bytes.Buffer
	if err := errors.Join(layer.Pack(t.Context(), dir, &one), layer.Pack(t.Context(), dir, &two)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("a folder does not make the same layer twice")
	}
	root, err := merged(t, one.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := "a/ a/b/ a/b/f=text a/g=text a/l->b/f \xff=no UTF-8"
	if got := strings.Join(list(t, root), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFurnish(t *testing.T) {
	root := t.TempDir()
	os.Symlink("/var/run", filepath.Join(root, "run"))
	os.Symlink("../../../../../../../../tmp/out", filepath.Join(root, "workspace"))
	if err := layer.Furnish(root, "run/hutch", "workspace", "dev/shm"); err != nil {
		t.Fatal(err)
	}
	want := "dev/ dev/shm/ run->/var/run tmp/ tmp/out/ var/ var/run/ var/run/hutch/ workspace->../../../../../../../../tmp/out"
	if got := strings.Join(list(t, root), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	Write(t, filepath.Join(root, "proc"), nil)
	if err := layer.Furnish(root, "proc"); fs.Text(err) != `invalid argument: image has no place for /proc: "proc" passes through a file` {
		t.Errorf("error %v", err)
	}
}

// TestPut puts files into an image that has links, and a layer's file, there.
func TestPut(t *testing.T) {
	top := t.TempDir()
	root, of := filepath.Join(top, "root"), filepath.Join(top, "layer")
	os.Mkdir(root, 0o755)
	os.Symlink(top, filepath.Join(root, "opt"))
	Write(t, of, []byte("the layer's"))
	if err := os.Link(of, filepath.Join(root, "f")); err != nil {
		t.Fatal(err)
	}
	os.Symlink(of, filepath.Join(root, "l"))
	for _, name := range []string{"opt/hutch/README", "f", "l"} {
		for range 2 {
			if err := layer.Put(root, name, "text", true); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if got, _ := os.ReadFile(of); string(got) != "the layer's" {
		t.Errorf("the layer has %q", got)
	}
	in := strings.TrimPrefix(top, "/") + "/hutch/README=text"
	if got := strings.Join(list(t, root), " "); !strings.Contains(got, in) || !strings.Contains(got, "f=text l=text") || strings.Contains(got, ".new") {
		t.Errorf("got  %s\nwant %s", got, in)
	}
	if err := layer.Put(root, "none/f", "text", false); err == nil {
		t.Error("a folder was made that was not to be")
	}
}

// TestOrdinaryUser runs this package's other tests without the superuser's powers.
func TestOrdinaryUser(t *testing.T) {
	need.Root(t)
	runAsNobody(t)
}

// FuzzUnpack unpacks and merges any bytes, and checks that they stay inside.
func FuzzUnpack(f *testing.F) {
	f.Add(Tar(Dir("a", 0o755), File("a/b", "x"), Symlink("a/l", "../.."), File("a/l/evil", "x"), Link("h", "a/b")))
	f.Add(Tar(Symlink("a", "/"), File("a/x", ""), File(".wh.a", ""), File("b/.wh..wh..opq", ""), Dir("a", 0)))
	f.Add(Tar(Symlink("a", "b"), Symlink("b", "a"), File("../x", "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		dir, root := filepath.Join(top, "in", "layer"), filepath.Join(top, "in", "root")
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		b := layer.NewBudget(1<<20, 1000)
		if _, err := layer.Unpack(t.Context(), bytes.NewReader(data), dir, b); err == nil {
			layer.Merge(t.Context(), []string{dir, dir}, root)
		}
		if got, _ := os.ReadDir(top); len(got) != 1 {
			t.Errorf("outside there is %v", got)
		}
		if got, _ := os.ReadDir(filepath.Join(top, "in")); len(got) > 2 {
			t.Errorf("beside the layer there is %v", got)
		}
	})
}

// BenchmarkUnpack unpacks and merges ten thousand small files.
func BenchmarkUnpack(b *testing.B) {
	var entries []Entry
	for i := range 10_000 {
		entries = append(entries, File(fmt.Sprintf("usr/share/doc/package%d/file%d", i/20, i), "some text\n"))
	}
	data := Tar(entries...)
	for b.Loop() {
		if _, err := merged(b, data); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLinkCounts has files have as many names in a root as their layers give them,
// however many images have the layers.
func TestLinkCounts(t *testing.T) {
	base := Tar(Dir("etc", 0o755), File("etc/crontab", "x"), File("one", "1"), Link("two", "one"), Link("etc/three", "one"))
	top := Tar(Link("below", "etc/crontab"), File("own", "y"))
	var dirs []string
	for _, l := range [][]byte{base, top} {
		dir, _, err := unpack(t, l)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	for range 2 {
		root := t.TempDir()
		if err := layer.Merge(t.Context(), dirs, root); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]uint64{"etc/crontab": 2, "below": 2, "one": 3, "two": 3, "etc/three": 3, "own": 1} {
			st, err := os.Stat(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			if n := uint64(st.Sys().(*syscall.Stat_t).Nlink); n != want {
				t.Errorf("%s has %d names, want %d", name, n, want)
			}
		}
	}
}
