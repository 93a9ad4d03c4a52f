package main

import (
	"fmt"
	"path"
	"strconv"
	"time"
)

// snapshots measures a snapshot of many files and of a large one, of a guest
// that runs: how long it takes, and for how much of that the guest stands still.
// Where the file system shares no blocks, the first is dearer than those after.
func (b *bencher) snapshots() error {
	for _, load := range []struct {
		what, line string
		n          int
	}{
		{"1000 files", "sh i=0; while test $i -lt 1000; do i=$((i+1)); echo $i >f$i; done", 10},
		{"1 GB", "sh rm f*; dd if=/dev/zero of=big bs=1000000 count=1000", 3},
	} {
		if _, err := b.exec(benchVM, load.line); err != nil {
			return err
		}
		err := b.snapshot("snapshot of "+load.what, 1)
		if err == nil {
			err = b.snapshot("another of "+load.what, load.n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshot measures n snapshots. They stay until the VM goes, which is quicker.
func (b *bencher) snapshot(what string, n int) error {
	var frozen []time.Duration
	err := b.times(what, "", n, func() error {
		name := path.Join("vm", benchVM, "snap", strconv.FormatInt(time.Now().UnixNano(), 10))
		if err := b.c.mkdir(name, 0o755); err != nil {
			return err
		}
		text, err := readFile(b.c, name+"/info")
		if err != nil {
			return err
		}
		seconds, err := strconv.ParseFloat(pairs(text)["frozen"], 64)
		if err != nil {
			return fmt.Errorf("%s/info: %w", name, err)
		}
		frozen = append(frozen, time.Duration(seconds*float64(time.Second)))
		return nil
	})
	if err != nil {
		return err
	}
	b.add(what+", guest frozen", "", frozen, sum(frozen))
	return nil
}
