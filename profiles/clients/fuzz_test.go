package clients

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzFile puts a server into any file and takes it out again: what cannot be
// edited is an error, and nothing else changes.
func FuzzFile(f *testing.F) {
	samples, _ := filepath.Glob("testdata/*.before")
	for _, name := range samples {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i := range table {
			if table[i].Name == strings.TrimSuffix(filepath.Base(name), ".before") {
				f.Add(uint8(i), text)
			}
		}
	}
	p := program{"/bin/hutch", []string{"-s", "unix!/x", "mcp"}}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		c := &table[int(which)%len(table)]
		was := bytes.Clone(text)
		is, err := c.put(text, "a.b", p)
		if !bytes.Equal(was, text) {
			t.Fatal("the text was changed in place")
		}
		if err != nil {
			return
		}
		got, there, err := c.find(is, "a.b")
		if err != nil || !there || got.command != p.command {
			t.Fatalf("%q: %v, %v", is, got, err)
		}
		less, err := c.drop(is, "a.b")
		if err != nil {
			return // it was put where it cannot be taken out of, and it says so
		}
		if _, there, err := c.find(less, "a.b"); err != nil || there {
			t.Fatalf("%q: still there, %v", less, err)
		}
	})
}
