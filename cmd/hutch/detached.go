package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"hutch/fs"
)

// detached starts a command that stays until it is removed, and prints the
// VM's name and its.
func detached(c *tree, vm string, words []string, o *options, messages []string) error {
	dir := ""
	for n := lastDetached(c, vm) + 1; ; n++ {
		dir = path.Join(vm, "exec", detachedName(n))
		err := c.mkdir(dir, 0o755)
		if err == nil {
			break
		}
		if fs.Errno(err) != fs.Errno(fs.ErrExist) {
			return err
		}
	}
	if o.tty {
		messages = append(messages, usualSize)
	}
	if err := ready(c, dir, messages...); err != nil {
		return unset(err)
	}
	if err := ready(c, dir, execMessage(words)); err != nil {
		return unfound(err)
	}
	o.began = true
	writeFile(c, path.Join(dir, "ctl"), "eof\n") // one that has ended already needs none
	_, err := fmt.Println(path.Base(vm), path.Base(dir))
	return err
}

func detachedName(n int) string { return fmt.Sprintf("d%d", n) }

// lastDetached returns the number of the detached command that was begun last
// of those that are there: each has one more than the others. 0: there is none.
func lastDetached(c *tree, vm string) int {
	last := 0
	names, _ := folders(c, path.Join(vm, "exec"))
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "d")); err == nil && n > last && name == detachedName(n) {
			last = n
		}
	}
	return last
}
