package main

import (
	"path"
	"strconv"
	"strings"
)

// crowd is how many sandboxes density has at once.
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
	for i := range crowd {
		name := benchVM + "-" + strconv.Itoa(i)
		remove, err := b.vm(name)
		if err != nil {
			return err
		}
		names, removes = append(names, name), append(removes, remove)
	}
	sum := 0.0
	for _, name := range names {
		text, err := b.settled(path.Join("vm", name, "status"))
		if err != nil {
			return err
		}
		mib, err := strconv.ParseFloat(strings.TrimSuffix(setting(text, "memory"), "MiB"), 64)
		if err != nil {
			return err
		}
		sum += mib
	}
	b.figures = append(b.figures, figure{What: "memory of each of " + strconv.Itoa(crowd), N: crowd, Rate: sum / crowd, Unit: "MiB", Target: "≤ 100 MiB"})
	return nil
}
