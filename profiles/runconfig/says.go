package runconfig

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"hutch/aggd/rawjson"
	"hutch/profiles"
	"hutch/profiles/reference"
)

// says has the fields of a RunConfig that hutch acts upon.
type says struct {
	SchemaVersion string              `json:"schema_version,omitempty"`
	Name          string              `json:"name,omitempty"`
	Image         string              `json:"image,omitempty"`
	RemoteURL     string              `json:"remote_url,omitempty"`
	Args          []string            `json:"cmd_args,omitempty"`
	Transport     string              `json:"transport,omitempty"`
	TargetPort    int                 `json:"target_port,omitempty"`
	Env           map[string]string   `json:"env_vars,omitempty"`
	Secrets       []string            `json:"secrets,omitempty"`
	Permission    string              `json:"permission_profile_name_or_path,omitempty"`
	Profile       json.RawMessage     `json:"permission_profile,omitempty"`
	Volumes       []string            `json:"volumes,omitempty"`
	Group         string              `json:"group,omitempty"`
	Tools         []string            `json:"tools_filter,omitempty"`
	Overrides     map[string]Override `json:"tools_override,omitempty"`
	Labels        map[string]string   `json:"container_labels,omitempty"`
	Headers       *saysHeaders        `json:"header_forward,omitempty"`
	Auth          *saysAuth           `json:"remote_auth_config,omitempty"`
	Entry         string              `json:"registry_server_name,omitempty"`
	Hutch         *saysHutch          `json:"hutch,omitempty"`
}

type saysHeaders struct {
	Plain  map[string]string `json:"add_plaintext_headers,omitempty"`
	Secret map[string]string `json:"add_headers_from_secret,omitempty"`
}

type saysAuth struct {
	ClientID         string            `json:"client_id,omitempty"`
	ClientSecret     string            `json:"client_secret,omitempty"`
	ClientSecretFile string            `json:"client_secret_file,omitempty"`
	Scopes           []string          `json:"scopes,omitempty"`
	ScopeParam       string            `json:"scope_param_name,omitempty"`
	Issuer           string            `json:"issuer,omitempty"`
	AuthorizeURL     string            `json:"authorize_url,omitempty"`
	TokenURL         string            `json:"token_url,omitempty"`
	Resource         string            `json:"resource,omitempty"`
	Params           map[string]string `json:"oauth_params,omitempty"`
	CallbackPort     int               `json:"callback_port,omitempty"`
	Timeout          time.Duration     `json:"timeout,omitempty"` // in nanoseconds
	BearerToken      string            `json:"bearer_token,omitempty"`
	BearerTokenFile  string            `json:"bearer_token_file,omitempty"`
}

type saysHutch struct {
	Health *bool  `json:"health_check,omitempty"`
	RAM    string `json:"ram,omitempty"`
	Disk   string `json:"disk,omitempty"`
	Group  *bool  `json:"group,omitempty"`
}

// says returns what a RunConfig says of s.
func (s *Server) says() *says {
	t := &says{
		SchemaVersion: Version, Name: s.Name, Image: s.Source.String(), Args: s.Args, Transport: s.Transport, TargetPort: s.Port,
		Env: s.Env, Permission: s.Permission, Group: s.Group, Tools: s.Tools, Overrides: s.Overrides, Labels: s.Labels, Entry: s.Entry,
	}
	if s.IsRemote() {
		t.Image, t.RemoteURL = "", s.Source.Name
	}
	for _, secret := range s.Secrets {
		t.Secrets = append(t.Secrets, target(secret.Reference, secret.Variable))
	}
	if s.Profile != nil {
		t.Profile, _ = rawjson.Encode(s.Profile)
	}
	for _, m := range s.Mounts {
		t.Volumes = append(t.Volumes, m.String())
	}
	if len(s.Headers)+len(s.SecretHeaders) > 0 {
		t.Headers = &saysHeaders{Plain: s.Headers}
		for _, name := range slices.Sorted(maps.Keys(s.SecretHeaders)) {
			if t.Headers.Secret == nil {
				t.Headers.Secret = make(map[string]string)
			}
			t.Headers.Secret[name] = bare(s.SecretHeaders[name])
		}
	}
	if s.Auth != nil {
		t.Auth = s.Auth.says()
	}
	if size := (profiles.Config{RAM: s.RAM, Disk: s.Disk}); s.NoHealth || s.NoGroup || size != (profiles.Config{}) {
		t.Hutch = &saysHutch{RAM: size.Value("ram"), Disk: size.Value("disk")}
	}
	if s.NoHealth {
		t.Hutch.Health = new(bool)
	}
	if s.NoGroup {
		t.Hutch.Group = new(bool)
	}
	return t
}

func (a *Auth) says() *saysAuth {
	t := &saysAuth{
		ClientID: a.ClientID, Scopes: a.Scopes, ScopeParam: a.ScopeParam, Issuer: a.Issuer, AuthorizeURL: a.AuthorizeURL,
		TokenURL: a.TokenURL, Resource: a.Resource, Params: a.Params, CallbackPort: a.CallbackPort, Timeout: a.Timeout,
	}
	t.ClientSecret, t.ClientSecretFile = inFile(a.ClientSecret, "client_secret")
	t.BearerToken, t.BearerTokenFile = inFile(a.Bearer, "bearer_token")
	return t
}

// inFile returns what a pair of fields says of a secret, one of which is for the path of a file.
func inFile(r reference.Reference, of string) (text, file string) {
	switch r.Scheme {
	case "":
		return "", ""
	case reference.File:
		return "", r.Name
	}
	return target(r, of), ""
}

func target(r reference.Reference, of string) string { return bare(r) + ",target=" + of }

// bare returns a reference as ToolHive writes those that it has.
func bare(r reference.Reference) string {
	if r.Scheme == reference.Stored {
		return r.Name
	}
	return r.String()
}
