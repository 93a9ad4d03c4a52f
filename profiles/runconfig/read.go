package runconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"hutch/aggd/guard"
	"hutch/aggd/rawjson"
	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/reference"
)

// server returns the server that s tells of.
func (s *says) server() (*Server, *Fault) {
	v := &Server{
		Name: s.Name, Group: s.Group, Args: s.Args, Transport: s.Transport, Port: s.TargetPort, Env: s.Env, Permission: s.Permission,
		Tools: s.Tools, Overrides: s.Overrides, Labels: s.Labels, Entry: s.Entry,
	}
	for _, read := range []func(*Server) *Fault{s.source, s.permissions, s.secrets, s.volumes, s.headers, s.auth, s.own} {
		if fault := read(v); fault != nil {
			return nil, fault
		}
	}
	return v, v.check()
}

// own reads what is hutch's own.
func (s *says) own(v *Server) *Fault {
	if s.Hutch == nil {
		return nil
	}
	if s.Hutch.Health != nil {
		v.NoHealth = !*s.Hutch.Health
	}
	v.NoGroup = s.Hutch.Group != nil && !*s.Hutch.Group
	var size profiles.Config
	for _, f := range []struct{ key, text string }{{"ram", s.Hutch.RAM}, {"disk", s.Hutch.Disk}} {
		if f.text == "" {
			continue
		}
		if v.IsRemote() {
			return faultf("hutch."+f.key, "does not go with remote_url: that server runs elsewhere")
		}
		if err := size.Set(f.key, f.text); err != nil {
			return faultf("hutch."+f.key, "%s", strings.TrimPrefix(err.Error(), fs.ErrInvalid.Error()+": "+f.key+" "))
		}
	}
	v.RAM, v.Disk = size.RAM, size.Disk
	return nil
}

// source reads where the server comes from and how it is spoken to.
func (s *says) source(v *Server) *Fault {
	field, ref := "image", s.Image
	switch {
	case s.Image != "" && s.RemoteURL != "":
		return faultf("remote_url", "does not go with image: remove one")
	case s.Image == "" && s.RemoteURL == "":
		return nil // nobody has said it yet
	case s.RemoteURL != "":
		field, ref = "remote_url", s.RemoteURL
	case strings.HasPrefix(ref, "toolhivelocal/"):
		return faultf("image", "%.64q was built by ToolHive where it ran, and is nowhere else: write what it was built of, as npx://PACKAGE", ref)
	}
	source, err := parseSource(ref)
	if err == nil {
		source, err = source.AsImage()
	}
	switch {
	case err != nil:
		return faultf(field, "is wrong: %v", err)
	case source.Kind == Remote && s.RemoteURL == "":
		return faultf("image", "is a URL: write it in remote_url")
	case source.Kind != Remote && s.RemoteURL != "":
		return faultf("remote_url", "is no URL like https://HOST/PATH")
	}
	v.Source = source
	switch {
	case v.Transport == "" && source.Kind == Remote:
		v.Transport = Streamable
	case v.Transport == "":
		v.Transport = Stdio
	}
	return nil
}

func (s *says) permissions(v *Server) *Fault {
	if s.Permission != "" && permission.Builtin(s.Permission) == nil && !strings.HasPrefix(s.Permission, "/") {
		return faultf("permission_profile_name_or_path", "%.64q is not none, not network and no absolute path of a file", s.Permission)
	}
	if s.Profile == nil {
		return nil
	}
	p, err := permission.Parse(s.Profile)
	if wrong, ok := errors.AsType[*permission.Fault](err); ok {
		return faultf(strings.TrimSuffix("permission_profile."+wrong.Path, "."), "%s", wrong.Text)
	}
	v.Profile = p
	return nil
}

func (s *says) secrets(v *Server) *Fault {
	for i, text := range s.Secrets {
		if hideWords(text) != text {
			return secretf(fmt.Sprintf("secrets[%d]", i), "holds what looks like a secret, where its name is to be: keep it with hutch secret set NAME")
		}
		r, variable, err := reference.ParseTarget(text)
		if err != nil {
			return faultf(fmt.Sprintf("secrets[%d]", i), "is not NAME,target=VARIABLE, where NAME is a name of a secret or a reference as env:NAME")
		}
		v.Secrets = append(v.Secrets, Secret{r, variable})
	}
	return nil
}

func (s *says) volumes(v *Server) *Fault {
	for i, text := range s.Volumes {
		rest, ro := strings.CutSuffix(text, ":ro")
		if !ro {
			rest = strings.TrimSuffix(rest, ":rw")
		}
		m, err := permission.ParseMount(rest, ro)
		if err != nil {
			return faultf(fmt.Sprintf("volumes[%d]", i), "%.64q %v", text, err)
		}
		v.Mounts = append(v.Mounts, m)
	}
	return nil
}

func (s *says) headers(v *Server) *Fault {
	if s.Headers == nil {
		return nil
	}
	v.Headers = s.Headers.Plain
	for _, name := range slices.Sorted(maps.Keys(s.Headers.Secret)) {
		text := s.Headers.Secret[name]
		r, fault := readReference("header_forward.add_headers_from_secret."+name, text)
		if fault != nil {
			return fault
		}
		if v.SecretHeaders == nil {
			v.SecretHeaders = make(map[string]reference.Reference)
		}
		v.SecretHeaders[name] = r
	}
	return nil
}

func (s *says) auth(v *Server) (fault *Fault) {
	if text, err := rawjson.Encode(s.Auth); err == nil && isNothing(text) {
		return nil
	}
	a := s.Auth
	v.Auth = &Auth{
		ClientID: a.ClientID, Scopes: a.Scopes, ScopeParam: a.ScopeParam, Issuer: a.Issuer, AuthorizeURL: a.AuthorizeURL,
		TokenURL: a.TokenURL, Resource: a.Resource, Params: a.Params, CallbackPort: a.CallbackPort, Timeout: a.Timeout,
	}
	for _, f := range []struct {
		name, text, file string
		to               *reference.Reference
	}{{"client_secret", a.ClientSecret, a.ClientSecretFile, &v.Auth.ClientSecret}, {"bearer_token", a.BearerToken, a.BearerTokenFile, &v.Auth.Bearer}} {
		path := "remote_auth_config." + f.name
		switch {
		case f.text != "" && f.file != "":
			return faultf(path+"_file", "says the same as %s: remove one", f.name)
		case f.text != "":
			if _, _, err := reference.ParseTarget(f.text); err != nil && !reference.Is(f.text) {
				return secretf(path, "holds a secret, not its name: %s", howTo(strings.Split(path, ".")))
			}
			if name, _, ok := strings.Cut(f.text, ",target="); ok {
				f.text = name
			}
			*f.to, fault = readReference(path, f.text)
		case f.file != "":
			*f.to, fault = readReference(path+"_file", reference.File+":"+f.file)
		}
		if fault != nil {
			return fault
		}
	}
	return nil
}

// readReference reads a reference, or the name of a secret that is stored. The text
// may be a secret: its error does not tell it.
func readReference(path, text string) (reference.Reference, *Fault) {
	r, err := reference.ParseNamed(text)
	if err != nil {
		return r, faultf(path, "is no name of a secret and no reference like env:NAME, file:/PATH or vault:MOUNT/PATH/KEY")
	}
	return r, nil
}

// check says what is wrong with the server, by the names that a config has.
func (s *Server) check() *Fault {
	if err := profiles.CheckServerName(s.Name); err != nil && s.Name != "" {
		return faultf("name", "%.64q %v", s.Name, err)
	}
	if s.Group != "" {
		if err := fs.CheckWord("group", s.Group); err != nil {
			return faultf("group", "%.64q is no name of a group", s.Group)
		}
	}
	for _, check := range []func() *Fault{s.checkTransport, s.checkCommand, s.checkTools, s.checkMounts, s.checkHeaders, s.checkAuth} {
		if fault := check(); fault != nil {
			return fault
		}
	}
	return nil
}

func (s *Server) checkTransport() *Fault {
	switch {
	case s.Transport == "" && s.Source.Kind == "":
	case s.Transport == "inspector":
		return faultf("transport", "is inspector, which is a program to look at servers: write %s, %s or %s", Stdio, SSE, Streamable)
	case s.Transport != Stdio && s.Transport != SSE && s.Transport != Streamable:
		return faultf("transport", "is %.32q: write %s, %s or %s", s.Transport, Stdio, SSE, Streamable)
	case s.IsRemote() && s.Transport == Stdio:
		return faultf("transport", "is %s, which does not go with remote_url: write %s or %s", Stdio, SSE, Streamable)
	case s.Port < 0 || s.Port > 65535:
		return faultf("target_port", "is %d: ports are 1 to 65535", s.Port)
	}
	return nil
}

// checkURL wants a URL of a host that is spoken to over TLS, or of this machine.
func checkURL(path, text string) *Fault {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return faultf(path, "is no URL like https://HOST/PATH")
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && guard.IsLocal(u.Hostname())) {
		return faultf(path, "does not begin with https://: others could read what is sent")
	}
	return nil
}
