package main

import (
	"cmp"
	"path"
	"strings"
	"time"
)

// suspends measures how long a VM is away that is suspended and resumed.
func (b *bencher) suspends() error {
	ctl := path.Join("vm", benchVM, "ctl")
	var away, back []time.Duration
	err := b.times("suspend + resume", "≤ 250 ms p50", 20, func() error {
		began := time.Now()
		err := writeFile(b.c, ctl, "suspend\n")
		away = append(away, time.Since(began))
		if err != nil {
			return err
		}
		began = time.Now()
		err = writeFile(b.c, ctl, "resume\n")
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
	return b.copies("live fork, ready for its first exec", "≤ 250 ms p50", "fork -live", func(name string) error {
		_, err := b.exec(name, "exec echo ok")
		return err
	})
}

// copies measures a verb that makes a copy of the VM, and what is done with
// the copy. That it is removed does not count.
func (b *bencher) copies(what, target, verb string, use func(name string) error) error {
	name := benchVM + "-copy"
	dir := path.Join("vm", name)
	there := false
	remove := func() error {
		if !there {
			return nil
		}
		if strings.Contains(verb, "-live") {
			if err := writeFile(b.c, dir+"/ctl", "kill\n"); err != nil {
				return err
			}
		}
		there = false
		return b.c.remove(dir)
	}
	err := b.repeat(what, target, 20, remove, func() error {
		if err := writeFile(b.c, path.Join("vm", benchVM, "ctl"), verb+" "+name+"\n"); err != nil {
			return err
		}
		there = true
		if use == nil {
			return nil
		}
		return use(name)
	})
	return cmp.Or(err, remove())
}
