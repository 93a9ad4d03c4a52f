package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hutch/fs"
	"hutch/profiles/permission"
	"hutch/profiles/reference"
	"hutch/profiles/registry"
	"hutch/profiles/runconfig"
)

// takeEntry has the server be what an entry of the registry says.
func (r *run) takeEntry(e *registry.Entry, transport string, args []string) error {
	r.forget(e.Name)
	again := r.Entry == e.Name
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
		err = errors.Join(r.takeArgs(e, l), r.takeVariables(l), r.takeHeaders(e, l))
	}
	if err == nil {
		err = r.takePermissions(e)
	}
	if err != nil {
		return fmt.Errorf("entry %s: %w", e.Name, err)
	}
	r.Entry, r.Transport = e.Name, cmp.Or(transport, e.Transport)
	if u, err := url.Parse(l.URL); err == nil && u.Port() != "" && (r.Port == 0 || again) {
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
		return fmt.Errorf("%w: set permission_profile says yourself what it may, and so does hutch server run with -permissions", err)
	}
	shown := func(m permission.Mount) bool {
		return slices.ContainsFunc(r.Mounts, func(o permission.Mount) bool { return o.Host == m.Host && o.Guest == m.Guest })
	}
	if folders = slices.DeleteFunc(folders, shown); len(folders) > 0 {
		return fmt.Errorf("%w: it wants to see folders of the host, which only you can show it: %s", fs.ErrPermission, r.show(folders))
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
			if err != nil {
				return false
			}
			if !slices.Contains(folders, m) { // it may be both to read and to write
				folders = append(folders, m)
			}
			return true
		})
		if len(*list) == 0 {
			*list = nil
		}
	}
	return p, folders, nil
}

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

// missing says what an entry needs, and how to give it: to a server that there is, and to
// hutch server run, which leaves none.
func missing(e *registry.Entry, lacks *registry.MissingError) error {
	var needs, flags []string
	for _, in := range lacks.Inputs {
		if in.Secret && slices.ContainsFunc(e.Args, func(a registry.Argument) bool {
			return a.Name == in.Name || slices.ContainsFunc(a.Variables, func(v registry.Input) bool { return v.Name == in.Name })
		}) {
			return fmt.Errorf("entry %s: %w", e.Name, secretArg(e))
		}
		what := in.Name
		if in.Description != "" {
			what += " (" + fs.PlainLine(fs.Shorten(in.Description)) + ")"
		}
		named := func(a registry.Argument) bool { return a.Name == in.Name }
		positional := func(a registry.Argument) bool { return named(a) && a.Flag == "" }
		switch {
		case in.Secret, runconfig.NamesSecret(in.Name) && !slices.ContainsFunc(e.Args, named): // the config takes it so, too
			what += ", a secret: " + keep(in.Name)
			flags = append(flags, "-e "+in.Name+"="+stored(in.Name))
		case slices.ContainsFunc(e.Args, positional):
			what += ": write it behind the name"
		default:
			what += ": set env_vars." + fs.Quote(in.Name) + " VALUE"
			flags = append(flags, "-e "+in.Name+"=VALUE")
		}
		needs = append(needs, what)
	}
	if len(flags) > 0 {
		needs = append(needs, "or hutch server run with "+strings.Join(flags, " "))
	}
	return fmt.Errorf("%w: entry %s needs %s", fs.ErrInvalid, e.Name, strings.Join(needs, "; "))
}

// keep says how a server gets a secret as its input called name.
func keep(name string) string {
	ref := stored(name)
	return fmt.Sprintf("hutch secret set %s, and set env_vars.%s %s", strings.TrimPrefix(ref, reference.Stored+":"), fs.Quote(name), ref)
}

// stored returns the reference to the secret for an input called name.
func stored(name string) string {
	return reference.Reference{Scheme: reference.Stored, Name: strings.TrimLeft(name, "-")}.String()
}

// secretArg is the error of an entry that wants a secret as an argument: every program
// of the machine could read it.
func secretArg(e *registry.Entry) error {
	return fmt.Errorf("%w: it wants a secret among its arguments, where others can read it: if a variable can hold it, too, run %s with that", fs.ErrUnsupported, e.Run)
}

// takeArgs takes the words of a launch, of which none is a secret.
func (r *run) takeArgs(e *registry.Entry, l *registry.Launch) error {
	r.Args = nil
	for _, a := range l.Args {
		if a.Secret {
			return secretArg(e)
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
