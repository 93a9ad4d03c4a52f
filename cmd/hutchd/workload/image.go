package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/programs"
	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/runconfig"
	"hutch/vmm/image"
)

// imageOf returns the image of a server that is one, as a Box has it; "" of another.
func imageOf(s runconfig.Source) string {
	switch {
	case s.Kind == runconfig.Here:
		return s.Name
	case s.Kind != runconfig.Image:
		return ""
	case (profiles.Box{Image: s.Name}).IsReference():
		return s.Name
	}
	return s.Name + ":latest" // a name alone is that of an image that is here
}

// named returns the name of the image that a box says. One of a registry is pulled
// if it is not there; tell is told of that.
func (w *Workloads) named(ctx context.Context, b profiles.Box, tell func(string)) (string, error) {
	if !b.IsReference() {
		return b.Image, nil
	}
	img, whole, err := w.s.Images().Find(b.Image)
	if whole || err != nil {
		return img.Name, err
	}
	tell("pulling " + b.Image)
	name, err := w.s.Images().Fetch(ctx, b.Image)
	if err == nil {
		tell(fmt.Sprintf("pulled %s as image %s", b.Image, name))
	}
	return name, err
}

// fetch has the image of a server be there, if it is one. To wait no longer does not
// end a pull.
func (s *Server) fetch(ctx context.Context, c *runconfig.Server) error {
	_, err := s.w.named(ctx, profiles.Box{Image: imageOf(c.Source)}, func(text string) {
		fmt.Fprintf(s.AggLog(), "%s: %s\n", s.Name, text)
	})
	return err
}

// imageStatus is what a server's status says of the image that it is: its name, how
// far its pull is, or its digest, and that nobody has looked who signed that.
func (s *Server) imageStatus(source runconfig.Source) string {
	ref := imageOf(source)
	if ref == "" {
		return ""
	}
	if source.Kind == runconfig.Here {
		return fmt.Sprintf("image %s\n", ref)
	}
	img, whole, err := s.w.s.Images().Find(ref)
	switch {
	case img.Name == "" || err != nil:
		return ""
	case whole:
		return fmt.Sprintf("image %s\ndigest %s\nsignature unverified\n", img.Name, img.Digest())
	}
	if far := s.w.s.Images().Progress(img.Name); far != "" {
		return fmt.Sprintf("image %s\npull %s\n", img.Name, far)
	}
	return ""
}

// completed returns a start with what the image of its sandbox says of it: what is
// run where it names no command, and where, and as whom. Arguments of the start stand in
// the place of the image's CMD, as in docker run.
func (w *Workloads) completed(v *sandbox.Sandbox, b profiles.Box, s programs.Start) (programs.Start, sandbox.Given, error) {
	given := sandbox.Given{Env: environment()}
	if b.Image == "" || b.Image == image.Host {
		return s, given, nil
	}
	img, err := w.s.Images().Lookup(v.Config().Image)
	if err != nil {
		return s, given, err
	}
	l := img.Launch()
	given.Env, given.User = map[string]string{"NODE_USE_ENV_PROXY": "1"}, l.User
	for _, kv := range l.Env { // which a user's own would go before
		if value, ok := strings.CutPrefix(kv, "HOME="); ok {
			given.Env["HOME"] = value
		}
	}
	s.Dir = cmp.Or(s.Dir, l.Dir, "/")
	if s.Command != "" {
		return s, given, nil
	}
	words := slices.Concat(l.Entrypoint, s.Args)
	if len(s.Args) == 0 {
		words = append(words, l.Cmd...)
	}
	if len(words) == 0 {
		return s, given, fmt.Errorf("%w: image %s does not say what is run in it: give a command", fs.ErrInvalid, img.Name)
	}
	s.Command, s.Args = words[0], words[1:]
	return s, given, nil
}
