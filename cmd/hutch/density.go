package main

import (
	"cmp"
	"strconv"
	"time"
)

// crowd is how many sandboxes density has at once; fewer where they take
// longer than enough to start.
const crowd = 50

// density measures what each of many idle sandboxes holds: all their
// processes on the host, pages that they share counted in part.
func (b *bencher) density() (err error) {
	var names []string
	defer func() {
		for _, name := range names {
			err = cmp.Or(err, removeVM(b.c, name, true))
		}
	}()
	began := time.Now()
	for i := range crowd {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		if i >= some && time.Since(began) > enough {
			break
		}
		name := benchVM + "-" + strconv.Itoa(i)
		if err := b.vm(name); err != nil {
			return err
		}
		names = append(names, name)
	}
	total := 0.0
	for _, name := range names {
		mib, err := b.memoryOf(name)
		if err != nil {
			return err
		}
		total += mib
	}
	b.figures = append(b.figures, figure{What: "memory of each of " + strconv.Itoa(len(names)), N: len(names), Rate: total / float64(len(names)), Unit: "MiB", Target: "≤ 100 MiB"})
	return nil
}
