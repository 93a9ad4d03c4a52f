package main

import (
	"cmp"
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
