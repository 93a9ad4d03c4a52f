package main

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"time"
)

// suspends measures how long a VM is away that is suspended and resumed.
func (b *bencher) suspends() error {
	var away, back []time.Duration
	err := b.times("suspend + resume", "≤ 250 ms p50", 20, func() error {
		began := time.Now()
		err := tellVM(b.c, benchVM, "suspend")
		away = append(away, time.Since(began))
		if err != nil {
			return err
		}
		began = time.Now()
		err = tellVM(b.c, benchVM, "resume")
		back = append(back, time.Since(began))
		return err
	})
	if err != nil {
		return err
	}
	b.add("suspend", "", away, sum(away))
	b.add("resume", "", back, sum(back))
	return nil
}

// forks measures a copy of a VM that runs: a stopped one until it is there,
// a live one until the first command in it has run.
func (b *bencher) forks() error {
	if err := b.copies("fork", "", "fork", nil); err != nil {
		return err
	}
	return b.copies("live fork, ready for its first exec", "≤ 250 ms p50", "fork -live", b.echo)
}

// copies measures a verb that makes a copy of the VM, and what is done with
// the copy. That it is removed does not count.
func (b *bencher) copies(what, target, verb string, use func(name string) error) error {
	name := benchVM + "-copy"
	remove := func() error {
		if err := removeVM(b.c, name, true); !isMissing(err) {
			return err
		}
		return nil
	}
	err := b.repeat(what, target, 20, remove, func() error {
		if err := tellVM(b.c, benchVM, verb+" "+name); err != nil || use == nil {
			return err
		}
		return use(name)
	})
	return cmp.Or(err, remove())
}

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
