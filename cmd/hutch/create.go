package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hutch/fs"
)

// settings are lines of a VM's config that flags say.
type settings struct {
	lines  map[string]string // by key
	mounts []string
	hosts  []string // of -allow
	made   string   // the file of the profile that was made for them; "": none
}

// machineFlags are keys of a config that have a flag each.
var machineFlags = []struct{ key, doc string }{
	{"image", "`image` to start from; host if not said"},
	{"profile", "`profile` of the sandbox; default if not said"},
	{"driver", "`driver` that runs it"},
	{"ram", "most memory: a `size` as 512MiB or 2GiB"},
	{"cpus", "how many processors: a `number` as 2 or 0.5"},
	{"net", "the `network`: none or host-proxy"},
}

// defineSettings declares the flags that say what machine is wanted.
func defineSettings(flags *flag.FlagSet) *settings {
	s := &settings{lines: map[string]string{}}
	for _, f := range machineFlags {
		flags.Func(f.key, f.doc, func(v string) error {
			s.lines[f.key] = v
			return nil
		})
	}
	flags.Func("v", "show the guest this `folder` of the host: HOST:GUEST, with :ro or :sockets behind; may come several times", func(m string) error {
		s.mounts = append(s.mounts, absolute(m))
		return nil
	})
	flags.Func("allow", "let it reach this `host` by HTTP and HTTPS, as pypi.org, *.debian.org or host:443; may come several times", s.addHost)
	return s
}

// messages are the control messages that have a VM set so.
func (s *settings) messages() []string {
	var list []string
	for _, f := range machineFlags {
		if v := s.lines[f.key]; v != "" {
			list = append(list, "set "+f.key+" "+fs.Quote(v))
		}
	}
	if len(s.mounts) > 0 {
		list = append(list, "set mount "+fs.Quote(fs.QuoteAll(s.mounts)))
	}
	return list
}

// absolute returns a mount with the whole path of its folder of the host.
func absolute(mount string) string {
	host, rest, ok := strings.Cut(mount, ":")
	if path, err := filepath.Abs(host); ok && host != "" && err == nil {
		return path + ":" + rest
	}
	return mount
}

func defineCreate(flags *flag.FlagSet) action {
	s := defineSettings(flags)
	return connected(func(ctx context.Context, c *tree, args []string) error {
		err := create(c, args[0], s)
		if err == nil {
			warn(c, path.Join("vm", args[0]))
		}
		return err
	})
}

// warn tells which limits of a VM are not enforced.
func warn(c *tree, dir string) {
	status, _ := readFile(c, path.Join(dir, "status"))
	for line := range strings.Lines(status) {
		if limit, why, found := strings.Cut(strings.TrimSuffix(line, "\n"), unheld); found {
			fmt.Fprintf(os.Stderr, "hutch: warning: %s is not enforced: %s\n", limit, why)
		}
	}
}

// unheld stands in a status between a limit and why it is not enforced.
const unheld = " not enforced: "

// known refuses settings that cannot be: an image that is not there, or hosts without a
// network.
func (s *settings) known(c *tree) error {
	ref := s.lines["image"]
	if s.lines["net"] == "none" && len(s.hosts) > 0 {
		return fmt.Errorf("%w: -allow and -net none exclude each other", fs.ErrInvalid)
	}
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
	if fs.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: vm %q; hutch exec %s runs a command in it", fs.ErrExist, vm, vm)
	}
	if err != nil {
		return err
	}
	if err := s.permit(c, vm); err != nil {
		c.remove(dir)
		return err
	}
	err = ready(c, dir, append(s.messages(), "check")...)
	if err != nil {
		s.forbid(c)
	}
	return err
}

// ready tells messages to what was made as dir, or leaves none of it.
func ready(c *tree, dir string, messages ...string) error {
	for _, m := range messages {
		if err := writeFile(c, path.Join(dir, "ctl"), m+"\n"); err != nil {
			c.remove(dir)
			return err
		}
	}
	return nil
}
