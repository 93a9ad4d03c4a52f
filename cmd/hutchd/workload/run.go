package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hutch/fs"
	"hutch/profiles/permission"
	"hutch/profiles/reference"
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
	unnamed  bool     // the source was a name, of which there is no entry
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
			source, r.unnamed = image, true
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
// the next: what it allowed, and the variables and headers that it knows, of which
// some are secrets, are not for another. Of an entry that is gone nobody knows them.
func (r *run) forget(next string) {
	was, err := r.registry.Lookup(r.Entry)
	if r.Entry == "" || r.Entry == next {
		return
	}
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

// takeEntry has the server be what an entry of the registry says.
func (r *run) takeEntry(e *registry.Entry, transport string, args []string) error {
	r.forget(e.Name)
	g := r.given(e)
	g.Args = fit(e, g.Values, args)
	l, err := e.Launch(g)
	if lacks, ok := errors.AsType[*registry.MissingError](err); ok {
		return missing(e, lacks)
	}
	if err != nil {
		return err
	}
	if r.Source, err = runconfig.ParseSource(l.Run); err == nil {
		r.Source, err = r.Source.AsImage()
	}
	if err == nil {
		err = errors.Join(r.takeArgs(l), r.takeVariables(l), r.takeHeaders(e, l))
	}
	if err == nil {
		err = r.takePermissions(e)
	}
	if err != nil {
		return fmt.Errorf("entry %s: %w", e.Name, err)
	}
	r.Entry, r.Transport = e.Name, cmp.Or(transport, e.Transport)
	if u, err := url.Parse(l.URL); err == nil && r.Port == 0 {
		r.Port, _ = strconv.Atoi(u.Port())
	}
	if o := e.OAuth; o != nil && r.Auth == nil && e.Remote() {
		r.Auth = &runconfig.Auth{
			ClientID: o.ClientID, Scopes: o.Scopes, Issuer: o.Issuer, AuthorizeURL: o.AuthorizeURL, TokenURL: o.TokenURL,
			Resource: o.Resource, Params: o.Params, CallbackPort: o.CallbackPort,
		}
	}
	r.unseen = r.hidden(l.Paths)
	return nil
}

// takePermissions takes what an entry gives its server, unless the config has said
// what that may.
func (r *run) takePermissions(e *registry.Entry) error {
	if e.Permissions == nil || r.Profile != nil || r.Permission != "" {
		return nil
	}
	p, folders, err := granted(e)
	if err != nil {
		return err
	}
	for _, m := range folders {
		shown := func(o permission.Mount) bool { return o.Host == m.Host && o.Guest == m.Guest }
		if !slices.ContainsFunc(r.Mounts, shown) {
			return fmt.Errorf("%w: it wants to see %s of the host, which only you can show it: set volumes %s, with :ro if it is only to read", fs.ErrPermission, m.Host, volume(m.Host, m.Guest))
		}
	}
	r.Profile = p
	return nil
}

// granted returns what an entry gives a server, and the folders of the host that it
// would have it see: who writes a registry is not to say which files leave this machine.
func granted(e *registry.Entry) (p *permission.Profile, folders []permission.Mount, err error) {
	if p, err = permission.Parse(e.Permissions); err != nil {
		return nil, nil, err
	}
	for _, list := range []*[]string{&p.Read, &p.Write} {
		*list = slices.DeleteFunc(*list, func(text string) bool {
			m, err := permission.ParseMount(text, false)
			if err != nil || m.Host == "" {
				return false
			}
			folders = append(folders, m)
			return true
		})
		if len(*list) == 0 {
			*list = nil
		}
	}
	return p, folders, nil
}

// volume is a folder of the host as the field volumes has it, in a control message.
func volume(host, guest string) string { return fs.Quote(`["` + host + ":" + guest + `"]`) }

// given returns what the config gives to an entry: its variables, and of its headers
// those that the entry knows. What the entry itself set when it was run before is not.
func (r *run) given(e *registry.Entry) registry.Given {
	g := registry.Given{Values: maps.Clone(r.Env), Secrets: map[string]string{}}
	if g.Values == nil {
		g.Values = map[string]string{}
	}
	for _, s := range r.Secrets {
		g.Secrets[s.Variable] = s.Reference.String()
	}
	for _, h := range e.Headers {
		if text, ok := r.Headers[h.Name]; ok {
			g.Values[h.Name] = text
		}
		if ref, ok := r.SecretHeaders[h.Name]; ok {
			g.Secrets[h.Name] = ref.String()
		}
	}
	for name, text := range g.Values {
		if reference.Is(text) {
			g.Secrets[name] = text
			delete(g.Values, name)
		}
	}
	for _, in := range slices.Concat(e.Env, e.Headers) {
		if r.Entry == e.Name && in.Value != "" {
			delete(g.Values, in.Name)
			delete(g.Secrets, in.Name)
		}
	}
	return g
}

// fit gives those of words to an entry's arguments that are theirs: by a flag, or
// by their place. It returns the others.
func fit(e *registry.Entry, values map[string]string, words []string) []string {
	words = slices.Clone(words)
	for _, a := range e.Args {
		if _, said := values[a.Name]; said || a.Value != "" || a.Name == "" {
			continue
		}
		switch {
		case a.Flag != "":
			var value string
			var found bool
			if value, words, found = cutFlag(words, a); found {
				values[a.Name] = value
			}
		case len(words) > 0 && !strings.HasPrefix(words[0], "-"):
			values[a.Name], words = words[0], words[1:]
		}
	}
	return words
}

// cutFlag takes a flag out of words with its value: "--flag value" or "--flag=value".
func cutFlag(words []string, a registry.Argument) (value string, rest []string, found bool) {
	for i, w := range words {
		switch value, equals := strings.CutPrefix(w, a.Flag+"="); {
		case equals:
			return value, slices.Delete(words, i, i+1), true
		case w == a.Flag && a.Format == "boolean":
			return "true", slices.Delete(words, i, i+1), true
		case w == a.Flag && i+1 < len(words):
			value = words[i+1]
			return value, slices.Delete(words, i, i+2), true
		}
	}
	return "", words, false
}

// missing says what an entry needs, and how to give it.
func missing(e *registry.Entry, lacks *registry.MissingError) error {
	var needs []string
	for _, in := range lacks.Inputs {
		what := in.Name
		if in.Description != "" {
			what += " (" + fs.PlainLine(fs.Shorten(in.Description)) + ")"
		}
		positional := func(a registry.Argument) bool { return a.Name == in.Name && a.Flag == "" }
		switch {
		case in.Secret:
			what += ", a secret: " + keep(in.Name)
		case slices.ContainsFunc(e.Args, positional):
			what += ": write it behind the name"
		default:
			what += ": set env_vars." + fs.Quote(in.Name) + " VALUE"
		}
		needs = append(needs, what)
	}
	return fmt.Errorf("%w: entry %s needs %s", fs.ErrInvalid, e.Name, strings.Join(needs, "; "))
}

// keep says how a server gets a secret as its input called name.
func keep(name string) string {
	secret := strings.TrimLeft(name, "-")
	return fmt.Sprintf("hutch secret set %s, and set env_vars.%s secret:%s", secret, fs.Quote(name), secret)
}

// takeArgs takes the words of a launch. A secret cannot be one: every program of
// the machine could read it.
func (r *run) takeArgs(l *registry.Launch) error {
	r.Args = nil
	for _, a := range l.Args {
		if a.Secret {
			return fmt.Errorf("%w: it wants a secret among its arguments, where others can read it", fs.ErrUnsupported)
		}
		r.Args = append(r.Args, a.Text)
	}
	return nil
}

// takeVariables takes the environment of a launch.
func (r *run) takeVariables(l *registry.Launch) error {
	r.Env, r.Secrets = nil, nil
	for _, name := range slices.Sorted(maps.Keys(l.Env)) {
		text := l.Env[name].Text
		ref, is, err := reference.Parse(text)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case r.IsRemote():
			return fmt.Errorf("%w: %s: a remote server has no environment, and the entry knows no %s", fs.ErrInvalid, name, name)
		case is:
			r.Secrets = append(r.Secrets, runconfig.Secret{Reference: ref, Variable: name})
		case l.Env[name].Secret:
			return fmt.Errorf("%w: %s holds a secret: take it away with set env_vars.%s, then %s", fs.ErrInvalid, name, fs.Quote(name), keep(name))
		default:
			put(&r.Env, name, text)
		}
	}
	return nil
}

// takeHeaders takes the headers of a launch: they go before those that the config
// has beside them. A bearer token that is a secret is one.
func (r *run) takeHeaders(e *registry.Entry, l *registry.Launch) error {
	r.Headers, r.SecretHeaders = maps.Clone(r.Headers), maps.Clone(r.SecretHeaders)
	for _, h := range e.Headers {
		delete(r.Headers, h.Name)
		delete(r.SecretHeaders, h.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		text := l.Headers[name].Text
		token, bearer := strings.CutPrefix(text, "Bearer ")
		bearer = bearer && strings.EqualFold(name, "Authorization")
		ref, is, err := reference.Parse(token)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case is && bearer:
			r.Auth = &runconfig.Auth{Bearer: ref}
		case is:
			put(&r.SecretHeaders, name, ref)
		case l.Headers[name].Secret:
			return fmt.Errorf("%w: header %s would have a secret inside other words, or its value: only a secret alone can be sent, and after Bearer", fs.ErrUnsupported, name)
		default:
			put(&r.Headers, name, text)
		}
	}
	return nil
}

func put[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[name] = v
}

// hidden returns those of paths that are of the host and that no mount shows.
func (r *run) hidden(paths []string) []string {
	mounts := slices.Clone(r.Mounts)
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
		return slices.ContainsFunc(mounts, func(m permission.Mount) bool {
			rel, err := filepath.Rel(m.Guest, path)
			return err == nil && filepath.IsLocal(rel)
		})
	})
}

// explain adds to why the server does not run what may be the reason.
func (r *run) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case r.unnamed:
		return fmt.Errorf("%w (no registry has %s, which was taken for an image)", err, r.Source)
	case len(r.unseen) > 0:
		path := r.unseen[0]
		return fmt.Errorf("%w (its sandbox does not show %s of the host: set volumes %s, with :ro if it is only to read)", err, path, volume(path, path))
	}
	return err
}
