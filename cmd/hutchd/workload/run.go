package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/registry"
	"hutch/profiles/runconfig"
)

// Run has the server be what ref names, with arguments, and starts it. A name is
// an entry of the registry or, where that has none, an image.
func (s *Server) Run(ctx context.Context, ref string, args []string) error {
	source, err := runconfig.ParseSource(ref)
	if err != nil {
		return err
	}
	var r run
	err = s.change(ctx, func(c *runconfig.Config) (*runconfig.Config, error) {
		r = run{Server: *c.Server(), registry: s.w.registry}
		r.Name = s.Name
		if err := r.take(source, args); err != nil {
			return nil, err
		}
		return c.With(&r.Server)
	})
	if err != nil {
		return err
	}
	return r.explain(s.Start(ctx))
}

// A run is what a server is to be.
type run struct {
	runconfig.Server
	registry *registry.Store
	unnamed  error    // the source was a name, of which there is no entry
	unseen   []string // files of the host among the arguments that the sandbox does not have
}

// take has the server be what a source is.
func (r *run) take(source runconfig.Source, args []string) error {
	said := r.Transport
	if r.Source.Kind != "" {
		said = "" // that of what it was
	}
	if source.Kind == runconfig.Named {
		switch e, err := r.registry.Lookup(source.Name); {
		case err == nil:
			return r.takeEntry(e, said, args)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		default:
			image, wrong := source.AsImage()
			if wrong != nil {
				return fmt.Errorf("%w, and %w", err, wrong)
			}
			source, r.unnamed = image, err
		}
	}
	r.forget("")
	r.Source, r.Args, r.Entry = source, args, ""
	r.Transport = cmp.Or(said, runconfig.Stdio)
	if source.Kind == runconfig.Remote && r.Transport == runconfig.Stdio {
		r.Transport = runconfig.Streamable
	}
	return nil
}

// forget takes away what goes with the entry that the server was, if that is not
// the next: what it allowed, its port, and the variables and headers that it knows, of
// which some are secrets, are not for another. Of an entry that is gone nobody knows them.
func (r *run) forget(next string) {
	if r.Entry == "" || r.Entry == next {
		return
	}
	r.Port = 0
	was, err := r.registry.Lookup(r.Entry)
	if err != nil {
		r.Env, r.Secrets, r.Headers, r.SecretHeaders, r.Auth, r.Profile = nil, nil, nil, nil, nil, nil
		return
	}
	if p, _, err := granted(was); err == nil && reflect.DeepEqual(p, r.Profile) {
		r.Profile = nil
	}
	r.Env, r.Headers, r.SecretHeaders = maps.Clone(r.Env), maps.Clone(r.Headers), maps.Clone(r.SecretHeaders)
	for _, in := range slices.Concat(was.Env, was.Headers) {
		delete(r.Env, in.Name)
		delete(r.Headers, in.Name)
		delete(r.SecretHeaders, in.Name)
		r.Secrets = slices.DeleteFunc(slices.Clone(r.Secrets), func(s runconfig.Secret) bool { return s.Variable == in.Name })
	}
	if was.Remote() {
		r.Auth = nil
	}
}

// hidden returns those of paths that are of the host and that no mount shows.
func (r *run) hidden(paths []string) []string {
	mounts := slices.Clip(r.Mounts)
	if p, err := r.Permissions(); err == nil {
		for _, text := range slices.Concat(p.Read, p.Write) {
			if m, err := permission.ParseMount(text, false); err == nil {
				mounts = append(mounts, m)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		if _, err := os.Lstat(path); err != nil || !filepath.IsAbs(path) {
			return true
		}
		return slices.ContainsFunc(mounts, func(m permission.Mount) bool { return profiles.Within(m.Guest, path) })
	})
}

// explain adds to why the server does not run what may be the reason.
func (r *run) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case r.unnamed != nil:
		none := strings.TrimPrefix(r.unnamed.Error(), fs.ErrNotExist.Error()+": ")
		return fmt.Errorf("no %s; as an image: %w; a package has npx://, uvx:// or go:// before its name", strings.TrimSuffix(none, "?"), err)
	case len(r.unseen) > 0:
		said := strings.Contains(err.Error(), notShown) // with what has it see them to read
		var mounts []permission.Mount
		for _, path := range r.unseen {
			mounts = append(mounts, permission.Mount{Host: path, Guest: path, ReadOnly: said})
		}
		if said {
			return fmt.Errorf("%w; %s", err, asFlags(mounts))
		}
		return fmt.Errorf("%w ("+notShown+" %s of the host: %s)", err, strings.Join(r.unseen, ", "), r.show(mounts))
	}
	return err
}

// show says how the server is shown folders of the host, beside those that it sees.
func (r *run) show(folders []permission.Mount) string {
	return setting("volumes", volumes(append(slices.Clip(r.Mounts), folders...))) + ", with :ro if it is only to read, " + asFlags(folders)
}

// asFlags says how hutch server run shows folders, which leaves nothing of a server that
// does not start.
func asFlags(folders []permission.Mount) string {
	text := "or hutch server run with"
	for _, m := range folders {
		text += " -v " + fs.ShellWord(m.String())
	}
	return text
}
