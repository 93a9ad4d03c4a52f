package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// undos measures what undo adds to a call that may change a workspace of a
// thousand files, in a guest that runs: nothing has changed, or ten files have.
// Its yardstick is the same call of a tool that changes nothing, and so has no
// snapshot before it. Then it undoes ten files.
func (b *bencher) undos() error {
	dir := path.Join("vm", benchVM)
	if err := tellVM(b.c, benchVM, "stop"); err != nil {
		return err
	}
	if err := ready(b.c, dir, "set undo calls", "start"); err != nil {
		return err
	}
	if _, err := b.exec(benchVM, "sh i=0; while test $i -lt 1000; do i=$((i+1)); echo $i >f$i; done; sleep 0.1"); err != nil {
		return err
	}
	call := func(tool string) func() error { return func() error { return b.tool(tool, `{"path":"none"}`) } }
	nothing := func() error { return nil }
	change := func() error {
		_, err := b.exec(benchVM, "sh for i in 1 2 3 4 5 6 7 8 9 10; do echo x >>f$i; done; sleep 0.1")
		return err
	}
	if err := call("file_delete")(); err != nil { // the first snapshot
		return err
	}
	for _, m := range []struct {
		what, tool, target string
		n                  int
		before             func() error
	}{
		{"call that changes nothing", "file_read", "", 200, nothing},
		{"call, undo: nothing of 1000 changed", "file_delete", "≤ 10 ms more", 200, nothing},
		{"call, undo: 10 of 1000 changed", "file_delete", "≤ 50 ms more", 30, change},
	} {
		if err := b.repeat(m.what, m.target, m.n, m.before, call(m.tool)); err != nil {
			return err
		}
	}
	id := ""
	return b.repeat("undo of 10 of 1000 files", "", 10, func() (err error) {
		if err = call("file_delete")(); err == nil {
			id, err = b.lastPoint(dir)
		}
		if err == nil {
			err = change()
		}
		return err
	}, func() error { return tellVM(b.c, benchVM, "undo "+id) })
}

// lastPoint returns the ID of the last call that can be undone.
func (b *bencher) lastPoint(dir string) (string, error) {
	text, err := readFile(b.c, dir+"/undo")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	id, _, _ := strings.Cut(lines[len(lines)-1], " ")
	return id, err
}

// tool calls a tool of the VM, which may fail.
func (b *bencher) tool(name, args string) error {
	f, err := b.c.open(path.Join("vm", benchVM, "mcp/tools", name, "call"), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tell(f, args); err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err == nil && !strings.Contains(string(text), "no such file") {
		err = fmt.Errorf("%s answers %.200s", name, text)
	}
	return err
}
