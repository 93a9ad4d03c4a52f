package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs"
)

func TestConsole(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	g := newGuest(t)
	one := g.open("cons", os.O_RDWR)
	io.WriteString(one, "echo o''ne\n")
	expect(t, one, "one\r\n")
	two := g.open("cons", os.O_RDWR)
	expect(t, two, "one\r\n") // a little of the past
	io.WriteString(two, "echo t''wo; X=k''ept\n")
	expect(t, one, "two\r\n")
	expect(t, two, "two\r\n")
	one.Close()
	two.Close()
	three := g.open("cons", os.O_RDWR)
	io.WriteString(three, "echo $X\n")
	expect(t, three, "kept\r\n")
	size := int64(g.a.cons.size())
	io.WriteString(three, "echo th''ree\n")
	all := expect(t, three, "three\r\n")
	again := g.open("cons", os.O_RDWR)
	again.off = size // as after a lost connection
	if text := expect(t, again, "three\r\n"); !strings.HasSuffix(all, text) {
		t.Errorf("went on with %q, which is not the end of %q", text, all)
	}
	io.WriteString(three, "exit\n")
	io.Copy(io.Discard, three)
	four := g.open("cons", os.O_RDWR)
	io.WriteString(four, "echo [$X]\n")
	expect(t, four, "[]\r\n")
}

func TestRing(t *testing.T) {
	w := newRing(8<<10, 1000)
	put(w, bytes.Repeat([]byte("x"), 100<<10))
	put(w, []byte("end"))
	if held := w.held(); held > 8<<10 {
		t.Errorf("holds %d", held)
	}
	h := &consHandle{spoolReader: w.open(true)}
	var got []byte
	p := make([]byte, 1<<10)
	for {
		n, err := h.ReadAt(t.Context(), p, int64(len(got)))
		if errors.Is(err, fs.ErrAgain) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p[:n]...)
	}
	if len(got) != consRecent || !bytes.HasSuffix(got, []byte("xend")) {
		t.Errorf("%d bytes, ending %q", len(got), got[len(got)-5:])
	}
}

func put(w *Spool, b []byte) {
	for len(b) > 0 {
		n := copy(w.space(), b)
		w.commit(n)
		b = b[n:]
	}
}

func TestRoot(t *testing.T) {
	g := newGuest(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	os.WriteFile(file, []byte("text"), 0o600)
	os.Symlink("f", filepath.Join(dir, "link"))
	g.want("root"+file, "text")
	if err := g.write("root"+file, "TEX"); err != nil {
		t.Fatal(err)
	}
	g.want("root"+file, "TEXt")
	n, err := g.walk("root" + dir + "/link")
	if err != nil {
		t.Fatal(err)
	}
	if to, err := n.Readlink(t.Context()); to != "f" || err != nil {
		t.Errorf("link to %q, %v", to, err)
	}
	n, err = g.walk("root/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Open(t.Context(), os.O_RDONLY); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opened a device: %v", err)
	}
}
