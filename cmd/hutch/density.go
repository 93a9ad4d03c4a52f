package main

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// crowd is how many sandboxes density has at once; fewer where they take
// longer than enough to start.
const crowd = 50

// density measures what each of many idle sandboxes holds: all their
// processes on the host, pages that they share counted in part.
func (b *bencher) density() (err error) {
	var names []string
	var removes []func() error
	defer func() {
		for _, remove := range removes {
			if rerr := remove(); err == nil {
				err = rerr
			}
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
		remove, err := b.vm(name)
		if err != nil {
			return err
		}
		names, removes = append(names, name), append(removes, remove)
	}
	total := 0.0
	for _, name := range names {
		text, err := b.settled(path.Join("vm", name, "status"))
		if err != nil {
			return err
		}
		mib, err := strconv.ParseFloat(strings.TrimSuffix(pairs(text)["memory"], "MiB"), 64)
		if err != nil {
			return err
		}
		total += mib
	}
	b.figures = append(b.figures, figure{What: "memory of each of " + strconv.Itoa(len(names)), N: len(names), Rate: total / float64(len(names)), Unit: "MiB", Target: "≤ 100 MiB"})
	return nil
}
