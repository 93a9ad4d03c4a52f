package runconfig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/profiles/permission"
	"hutch/profiles/reference"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decode(t testing.TB, text []byte) *Config {
	t.Helper()
	c, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// samples are exports, and what hutch does not act upon of each.
var samples = map[string][]string{
	"command-line.json": {
		"host", "port", "proxy_mode", "ignore_config guard", `middleware_configs[1] ("auth")`, "new_in_a_later_release",
		"permission_profile.network.outbound.insecure_allow_all",
	},
	"remote.json": {
		"remote_auth_config.cached_refresh_token_ref", "remote_auth_config.cached_token_expiry", "host", "port", "proxy_mode",
	},
	"kubernetes.json": {
		"mcpserver_generation", "host", "port", "oidc_config guard", "authz_config guard", "audit_config", "rate_limit_config guard", "rate_limit_namespace",
		"k8s_pod_template_patch", "scaling_config", `middleware_configs[0] ("authorization") guard`, `middleware_configs[1] ("invented") guard`,
	},
	"package.json": nil,
}

// TestSamples has exports come out as they went in, and what is changed in them
// alone be changed.
func TestSamples(t *testing.T) {
	for name, want := range samples {
		t.Run(name, func(t *testing.T) {
			text := read(t, name)
			c := decode(t, text)
			if !bytes.Equal(c.Text(), text) {
				t.Errorf("comes out as\n%s", c.Text())
			}
			var unused []string
			for _, u := range c.Unused() {
				path := u.Path
				if u.Guard {
					path += " guard"
				}
				unused = append(unused, path)
				if u.Why == "" || !strings.HasPrefix(u.String(), u.Path+": ") || strings.Contains(u.String(), "more open") != u.Guard {
					t.Errorf("no reason for %s", u)
				}
			}
			if !slices.Equal(unused, want) {
				t.Errorf("not acted upon\n%q\nwant\n%q", unused, want)
			}
			same, err := c.With(c.Server())
			if err != nil || !bytes.Equal(same.Text(), text) {
				t.Errorf("with what it says it is another: %v\n%s", err, same.Text())
			}
			changed := *c.Server()
			changed.Group = "other"
			other, err := c.With(&changed)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(other.Server(), &changed) {
				t.Errorf("is %+v, want %+v", other.Server(), changed)
			}
			for _, field := range []string{"new_in_a_later_release", "middleware_configs", "remote_auth_config", "authz_config", "env_vars"} {
				if was, is := rawjson.Get(text, field), rawjson.Get(other.Text(), field); !bytes.Equal(was, is) {
					t.Errorf("%s was %s and is %s", field, was, is)
				}
			}
		})
	}
}

// TestBothWays makes a config of the server that a sample is, and a server of that.
func TestBothWays(t *testing.T) {
	for name := range samples {
		s := decode(t, read(t, name)).Server()
		c, err := Empty().With(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(c.Server(), s) {
			t.Errorf("%s: %+v, want %+v", name, c.Server(), s)
		}
		again, err := Empty().With(c.Server())
		if err != nil || !bytes.Equal(again.Text(), c.Text()) {
			t.Errorf("%s: %v, and then\n%s\n%s", name, err, c.Text(), again.Text())
		}
	}
	if c, _ := Empty().With(decode(t, read(t, "package.json")).Server()); !bytes.Equal(c.Text(), read(t, "package.json")) {
		t.Errorf("a server is written as\n%s", c.Text())
	}
}

// TestServer says what the sample with most in it is to hutch.
func TestServer(t *testing.T) {
	s := decode(t, read(t, "package.json")).Server()
	want := &Server{
		Name: "everything", Group: "default", Source: Source{Kind: NPX, Name: "@modelcontextprotocol/server-everything", Version: "2026.1.1"},
		Args: []string{"stdio"}, Transport: Stdio, Env: map[string]string{"API_TOKEN": "vault:kv/everything/token", "DEBUG": "1"},
		Secrets:    []Secret{{reference.Reference{Scheme: "secret", Name: "gh"}, "GITHUB_TOKEN"}, {reference.Reference{Scheme: "env", Name: "KEY"}, "OTHER_KEY"}},
		Permission: "none", Profile: &permission.Profile{Name: "files", Read: []string{"/srv/data"}, Write: []string{"/srv/cache:/cache"}},
		Mounts: []permission.Mount{{Host: "/srv/out", Guest: "/out"}, {Host: "/srv/state", Guest: "/state", ReadOnly: true}},
		Tools:  []string{"echo", "sum"}, Overrides: map[string]Override{"add": {Name: "sum"}}, Labels: map[string]string{"team": "docs"}, NoHealth: true,
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	if p, err := s.Permissions(); err != nil || p.Name != "files" {
		t.Errorf("permissions %+v, %v", p, err)
	}
	remote := decode(t, read(t, "remote.json")).Server()
	secret := func(name string) reference.Reference { return reference.Reference{Scheme: "secret", Name: name} }
	auth := &Auth{
		ClientID: "hutch-example", ClientSecret: secret("OAUTH_CLIENT_SECRET_notes"), Scopes: []string{"read", "write"}, Issuer: "https://auth.example.com",
		AuthorizeURL: "https://auth.example.com/authorize", TokenURL: "https://auth.example.com/token", Params: map[string]string{"prompt": "consent"}, CallbackPort: 8666, Timeout: 5 * time.Minute,
	}
	if !remote.IsRemote() || !reflect.DeepEqual(remote.Auth, auth) || remote.SecretHeaders["X-Api-Key"] != secret("notes-key") || remote.Headers["X-Team"] != "docs" {
		t.Errorf("%+v with %+v", remote, remote.Auth)
	}
	if p, err := remote.Permissions(); err != nil || p.Name != permission.BuiltinNone {
		t.Errorf("permissions of none: %+v, %v", p, err)
	}
}

func TestEnvironment(t *testing.T) {
	for transport, want := range map[string]string{
		Stdio: "map[A:1 MCP_TRANSPORT:stdio]",
		SSE:   "map[A:1 FASTMCP_PORT:8080 MCP_HOST:127.0.0.1 MCP_PORT:8080 MCP_TRANSPORT:sse]",
	} {
		s := &Server{Transport: transport, Env: map[string]string{"A": "1", "MCP_TRANSPORT": "lie"}}
		if got := fmt.Sprint(s.Environment()); got != want {
			t.Errorf("%s: %s, want %s", transport, got, want)
		}
	}
}

// TestSet sets fields by their path, one after another.
func TestSet(t *testing.T) {
	c := decode(t, []byte("{\n  \"image\": \"npx://a\",\n  \"odd\": 1.50\n}\n"))
	for _, s := range []struct{ path, value, want string }{
		{"env_vars.my.key", "a b", `"env_vars":{"my.key":"a b"}`},
		{"target_port", "81", `"target_port":81`},
		{"transport", "sse", `"transport":"sse"`},
		{"tools_filter", `["x"]`, `"tools_filter":["x"]`},
		{"tools_filter", "echo", `"tools_filter":["echo"]`},
		{"tools_filter", "7", `"tools_filter":["7"]`},
		{"secrets", "s,target=S", `"secrets":["s,target=S"]`},
		{"secrets", "", `"tools_filter":["7"]`},
		{"odd", "", `"transport":"sse"`}, // what is not known can be taken away
		{"oidc_config.issuer", "https://a.example", `"oidc_config":{"issuer":"https://a.example"}`},
		{"hutch.health_check", "false", `"hutch":{"health_check":false}`},
		{"hutch.ram", "1GiB", `"hutch":{"health_check":false,"ram":"1GiB"}`},
		{"hutch.disk", "5000000", `"disk":"5000000"`},
		{"env_vars.N", "12", `"N":"12"`},
		{"env_vars.J", `{"a":1}`, `"J":"{\"a\":1}"`},
		{"env_vars.J", "", `"env_vars":{"my.key":"a b","N":"12"}`},
		{"port", "8080", `"port":8080`}, // on which hutch does not act
		{"debug", "true", `"debug":true`},
		{"max_request_body_size", "1048576", `"max_request_body_size":1048576`},
		{"proxy_read_timeout", "1m", `"proxy_read_timeout":"1m"`},
		{"host", "127.0.0.1", `"host":"127.0.0.1"`},
		{"env_vars.my.key", "", `"env_vars":{"N":"12"}`},
		{"header_forward.add_plaintext_headers.X-A", "1", `"header_forward":{"add_plaintext_headers":{"X-A":"1"}}`},
		{"permission_profile", `{"name":"x"}`, `"permission_profile":{"name":"x"}`},
		{"permission_profile", "", `"npx://a","env_vars"`},
	} {
		next, err := c.Set(s.path, s.value)
		if err != nil {
			t.Fatalf("%s: %v", s.path, err)
		}
		if got := compact(next.Text()); !strings.Contains(got, s.want) {
			t.Errorf("%s %s: %s", s.path, s.value, got)
		}
		if !bytes.HasPrefix(next.Text(), []byte("{\n  \"image\"")) {
			t.Errorf("%s: no longer tidy:\n%s", s.path, next.Text())
		}
		c = next
	}
	before := string(c.Text())
	for _, s := range []struct{ path, value, want string }{
		{"target_port", "many", "target_port takes no string"}, {"", "x", "is no path"}, {"env_vars.", "x", "is no path"}, {"a..b", "x", "is no path"},
		{"transport", "x", "transport is"}, {"env_vars.PASSWORD", "hunter2", "holds what looks like a secret"},
		{"schema_version", "v9", "schema_version is"},
		{"permission_profile", `{"read":["/"]}`, `permission_profile.read[0] "/" has /, which no server sees`},
		{"volumes", `["x:/y"]`, `volumes[0] "x:/y" has the path "x"`},
		{"invented.password", "12345678", `"invented.password" is not known; server(5)`},
		{"tool_filter", `["echo"]`, "did you mean tools_filter?"}, {"tols_filter", "echo", "did you mean tools_filter?"}, {"ram", "1GiB", "did you mean hutch.ram?"},
		{"hutch.rma", "1GiB", "did you mean hutch.ram?"}, {"tools_override.echo.nme", "x", "is not known"}, {"Image", "x", "did you mean image?"},
		{"tool_filter", "", "did you mean tools_filter?"},
		{"tools_filter", `{"a":1}`, "tools_filter takes no object: write a list"},
		{"volumes", "x:/y", `volumes[0] "x:/y" has the path "x"`},
	} {
		if next, err := c.Set(s.path, s.value); err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s %q: %v, %v", s.path, s.value, next, err)
		}
	}
	if string(c.Text()) != before {
		t.Error("a config was changed")
	}
}

func compact(text []byte) string {
	return strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(string(text))
}

// FuzzDecode: what is read comes out as it was; the server of it makes a config that
// is of the same server; and no secret of a known form is in one.
func FuzzDecode(f *testing.F) {
	for name := range samples {
		f.Add(string(read(f, name)))
	}
	f.Add(plain(`,"env_vars":{"A":"ghp_0123456789abcdefghij"}`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Decode([]byte(text))
		if err != nil {
			return
		}
		if string(c.Text()) != text {
			t.Errorf("%q comes out as %q", text, c.Text())
		}
		if same, err := c.With(c.Server()); err != nil || rawjson.GetString([]byte(text), "schema_version") == Version && string(same.Text()) != text {
			t.Errorf("%q with what it says is %v", text, err)
		}
		n, err := Empty().With(c.Server())
		if err != nil {
			t.Fatalf("%q makes none: %v", text, err)
		}
		was, _ := rawjson.Encode(c.Server().says())
		if is, _ := rawjson.Encode(n.Server().says()); !bytes.Equal(is, was) {
			t.Errorf("%q is\n%s\nand then\n%s", text, was, is)
		}
		for _, v := range c.Server().Env {
			if mayBeSecret("", v) {
				t.Errorf("%q has %q", text, v)
			}
		}
	})
}
