package main

import (
	"context"
	"flag"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
)

// settings are lines of a VM's config that flags say.
type settings struct {
	image   *string // "": none is said
	options []option
	mounts  words
}

type option struct {
	key   string
	value *string
}

// defineSettings declares the flags that say what machine is wanted.
func defineSettings(flags *flag.FlagSet) *settings {
	s := &settings{image: flags.String("image", "", "`image` to start from; host if not said")}
	s.options = []option{{"image", s.image}}
	for _, f := range []struct{ key, doc string }{
		{"profile", "`profile` of the sandbox; default if not said"},
		{"driver", "`driver` that runs it"},
		{"ram", "most memory: a `size` as 512MiB or 2GiB"},
		{"cpus", "how many processors: a `number` as 2 or 0.5"},
		{"net", "the `network`: none or host-proxy"},
	} {
		s.options = append(s.options, option{f.key, flags.String(f.key, "", f.doc)})
	}
	flags.Var(&s.mounts, "v", "show the guest this `folder` of the host: HOST:GUEST, or HOST:GUEST:ro; may come several times")
	return s
}

// messages are the control messages that have a VM set so.
func (s *settings) messages() []string {
	var list []string
	for _, f := range s.options {
		if *f.value != "" {
			list = append(list, "set "+f.key+" "+fs.Quote(*f.value))
		}
	}
	if len(s.mounts) == 0 {
		return list
	}
	mounts := slices.Clone(s.mounts)
	for i, m := range mounts {
		if host, rest, ok := strings.Cut(m, ":"); ok && host != "" && !filepath.IsAbs(host) {
			if host, err := filepath.Abs(host); err == nil {
				mounts[i] = host + ":" + rest
			}
		}
	}
	return append(list, "set mount "+fs.Quote(fs.QuoteAll(mounts)))
}

func defineCreate(flags *flag.FlagSet) action {
	s := defineSettings(flags)
	return connected(func(ctx context.Context, c *tree, args []string) error {
		return create(c, args[0], s)
	})
}

// known says that there is no such image as is wanted, if so.
func (s *settings) known(c *tree) error {
	ref := *s.image
	near := nearImage(c, ref)
	switch {
	case near == ref:
		return nil
	case near != "":
		return fmt.Errorf("%w: no image %q: did you mean %s?", fs.ErrNotExist, ref, near)
	}
	return fmt.Errorf("%w: no image %q: hutch images lists those that are there, hutch pull gets one", fs.ErrNotExist, ref)
}

// nearImage returns the image of that name, or the one that hutch pull makes
// of that reference; "" if there is neither.
func nearImage(c *tree, ref string) string {
	for _, name := range []string{ref, imageName(ref)} {
		if dir, err := imageDir(name); err == nil {
			if _, err := c.stat(dir); err == nil {
				return name
			}
		}
	}
	return ""
}

// create makes a VM with settings that can be started, or leaves none.
func create(c *tree, vm string, s *settings) error {
	dir, err := vmDir(vm)
	if err != nil {
		return err
	}
	if err := s.known(c); err != nil {
		return err
	}
	err = c.mkdir(dir, 0o755)
	if fs.Errno(err) == fs.Errno(fs.ErrExist) {
		return fmt.Errorf("%w: vm %q; hutch exec %s runs a command in it", fs.ErrExist, vm, vm)
	}
	if err != nil {
		return err
	}
	for _, m := range append(s.messages(), "check") {
		if err := writeFile(c, path.Join(dir, "ctl"), m+"\n"); err != nil {
			c.remove(dir)
			return err
		}
	}
	return nil
}
