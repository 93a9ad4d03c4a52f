package main

import (
	"path"
	"strings"
	"time"
)

// suspends measures how long a VM is away that is suspended and resumed.
func (b *bencher) suspends() error {
	return b.withVM(func() error {
		ctl := path.Join("vm", benchVM, "ctl")
		return b.times("suspend + resume", "≤ 250 ms p50", 20, func() error {
			return writeFile(b.c, ctl, "suspend\nresume\n")
		})
	})
}

// forks measures a copy of a VM that runs: a stopped one until it is there,
// a live one until the first command in it has run.
func (b *bencher) forks() error {
	return b.withVM(func() error {
		if err := b.copies("fork", "", "fork", nil); err != nil {
			return err
		}
		return b.copies("live fork, ready for its first exec", "≤ 250 ms p50", "fork -live", func(name string) error {
			_, err := b.exec(name, "exec echo ok")
			return err
		})
	})
}

// copies measures a verb that makes a copy of the VM, and what is done with
// the copy. That it is removed does not count.
func (b *bencher) copies(what, target, verb string, use func(name string) error) error {
	const n = 20
	name := benchVM + "-copy"
	dir := path.Join("vm", name)
	var took []time.Duration
	var whole time.Duration
	for range n {
		began := time.Now()
		if err := writeFile(b.c, path.Join("vm", benchVM, "ctl"), verb+" "+name+"\n"); err != nil {
			return err
		}
		var err error
		if use != nil {
			err = use(name)
		}
		took = append(took, time.Since(began))
		whole += time.Since(began)
		if strings.Contains(verb, "-live") {
			if kerr := writeFile(b.c, dir+"/ctl", "kill\n"); err == nil {
				err = kerr
			}
		}
		if rerr := orExplain(b.c, dir, b.c.Remove(dir)); err == nil {
			err = rerr
		}
		if err != nil {
			return err
		}
		if len(took) >= some && whole > enough {
			break
		}
	}
	b.add(what, target, took, whole)
	return nil
}
