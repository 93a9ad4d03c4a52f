package runconfig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/fs"
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
		Permission: "none", Profile: &permission.Profile{Name: "files", Read: []string{"/srv/data"}, Write: []string{"volume://cache:/cache"}},
		Mounts: []permission.Mount{{Host: "/srv/out", Guest: "/out"}, {Volume: "state", Guest: "/state", ReadOnly: true}},
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

// plain is the least config, with more in it.
func plain(more string) string { return `{"image":"npx://a","name":"a"` + more + `}` }

func TestRefused(t *testing.T) {
	many := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for text, want := range map[string]string{
		``:                                      "cannot be read",
		`[]`:                                    "is no JSON object",
		`null`:                                  "is no JSON object",
		"apiVersion: toolhive":                  "cannot be read",
		`{"image":"npx://a"`:                    "ends too early",
		"{\"image\":\"npx://\xff\"}":            "is not UTF-8",
		plain("") + " x":                        "cannot be read",
		`{"schema_version":"v0.2.0"}`:           `schema_version is "v0.2.0": hutch reads v0.1.0`,
		`{"schema_version":1}`:                  "schema_version is 1",
		`{"image":"npx://a","image":"npx://b"}`: "ambiguous",
		`{"image":"npx://a","Image":"npx://b"}`: "ambiguous",
		`{"Image":"npx://a"}`:                   "Image is spelled image",
		plain(`,"env_vars":{"A":"1","A":"2"}`):  "ambiguous",
		plain(`,"tools_override":{"a":{"Name":"b"}}`):                      "tools_override.a.Name is spelled name",
		plain(`,"remote_auth_config":{"Bearer_Token":"x"}`):                "remote_auth_config.Bearer_Token is spelled bearer_token",
		plain(`,"hutch":{"health":false}`):                                 "hutch.health is not known",
		plain(`,"hutch":{"ram":"1"}`):                                      "hutch.ram is too small: 1 bytes < 64MiB",
		remote(`"hutch":{"disk":"1GiB"}`):                                  "hutch.disk does not go with remote_url",
		plain(`,"cmd_args":"a"`):                                           `cmd_args takes no string: write a list, as ["a","b"]`,
		plain(`,"target_port":"80"`):                                       "target_port takes no string",
		plain(`,"env_vars":{"A":1}`):                                       "env_vars takes no number",
		plain(`,"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40)): "nested deeper",
		plain(`,"a":"` + strings.Repeat("x", MaxText) + `"`):               "at most 1048576",

		plain(`,"remote_url":"https://a.example/mcp"`):                                                     "does not go with image",
		`{"image":"https://a.example/mcp"}`:                                                                "write it in remote_url",
		`{"remote_url":"npx://a"}`:                                                                         "is no URL",
		`{"remote_url":"https://ann:hunter2@a.example/"}`:                                                  "remote_url holds what looks like a secret: write the name",
		`{"remote_url":"https://a.example/mcp?api_key=hunter2"}`:                                           "remote_url holds what looks like a secret",
		`{"image":"toolhivelocal/npx-a:20260101"}`:                                                         "was built by ToolHive",
		`{"image":"Not An Image"}`:                                                                         "image is wrong",
		`{"image":"npx://a","name":"a/b"}`:                                                                 `name "a/b" has other characters`,
		`{"image":"npx://a","name":"a__b"}`:                                                                "two underscores",
		`{"image":"npx://a","name":".."}`:                                                                  "other characters",
		plain(`,"group":"../x"`):                                                                           `group "../x" is no name`,
		plain(`,"transport":"inspector"`):                                                                  "transport is inspector",
		plain(`,"transport":"websocket"`):                                                                  `transport is "websocket": write stdio, sse or streamable-http`,
		`{"remote_url":"https://a.example/","transport":"stdio"}`:                                          "does not go with remote_url",
		plain(`,"middleware_configs":{"a":{"type":"authorization"}}`):                                      "middleware_configs is no list",
		plain(`,"header_forward":["a"]`):                                                                   "header_forward takes no array",
		plain(`,"target_port":65536`):                                                                      "target_port is 65536",
		plain(`,"target_port":-1`):                                                                         "target_port is -1",
		plain(`,"volumes":["relative:/x"]`):                                                                `volumes[0] "relative:/x" has the path "relative"`,
		plain(`,"volumes":["/a:/x","/b:/x"]`):                                                              "volumes[1] is at /x, where another is",
		plain(`,"volumes":["/a/../etc:/x"]`):                                                               "has .. in it",
		plain(`,"volumes":["/a$(id):/x"]`):                                                                 "has one of",
		plain(`,"volumes":["/a:/x:exec"]`):                                                                 "more colons",
		plain(`,"permission_profile":{"read":["/a/.."]}`):                                                  `permission_profile.read[0] "/a/.." has .. in it`,
		plain(`,"permission_profile":{"network":{"mode":"host"}}`):                                         "permission_profile.network.mode is host",
		plain(`,"permission_profile":{"raed":[]}`):                                                         `permission_profile cannot be read: "raed" is not known`,
		plain(`,"permission_profile_name_or_path":"mine.json"`):                                            `permission_profile_name_or_path "mine.json" is not none`,
		plain(`,"secrets":["a"]`):                                                                          "secrets[0] is not NAME,target=VARIABLE",
		plain(`,"secrets":["a,target=A B"]`):                                                               "secrets[0] is not NAME,target=VARIABLE",
		plain(`,"secrets":["a,target=A","b,target=A"]`):                                                    "secrets[1] has the target A",
		plain(`,"env_vars":{"A=B":"1"}`):                                                                   "is no name of a variable",
		plain(`,"env_vars":{"A":"\u0000"}`):                                                                "env_vars.A has a NUL",
		plain(`,"cmd_args":["a\u0000"]`):                                                                   "cmd_args[0] has a NUL",
		plain(`,"tools_filter":[""]`):                                                                      `tools_filter[0] "" is no name`,
		plain(`,"tools_override":{"a":{}}`):                                                                "tools_override.a says no name",
		plain(`,"tools_override":{"a":{"name":"c"},"b":{"name":"c"}}`):                                     `tools_override.b.name "c" is what "a" is called, too`,
		plain(`,"header_forward":{"add_plaintext_headers":{"A":"b"}}`):                                     "does not go with transport stdio",
		plain(`,"remote_auth_config":{"client_id":"a"}`):                                                   "remote_auth_config goes with remote_url",
		plain(`,"env_vars":{` + many(257, `"A%d":"1"`) + `}`):                                              "env_vars has 257",
		plain(`,"cmd_args":[` + many(1025, `"%d"`) + `]`):                                                  "cmd_args has 1025",
		plain(`,"secrets":[` + many(257, `"s,target=A%d"`) + `]`):                                          "secrets has 257",
		plain(`,"tools_filter":[` + many(1025, `"a%d"`) + `]`):                                             "tools_filter has 1025",
		plain(`,"volumes":[` + many(33, `"/a:/x%d"`) + `]`):                                                "volumes has 33",
		plain(`,"container_labels":{` + many(257, `"A%d":"1"`) + `}`):                                      "container_labels has 257",
		remote(`"header_forward":{"add_plaintext_headers":{"A B":"c"}}`):                                   "no name of a header",
		remote(`"header_forward":{"add_plaintext_headers":{"A":"b\r\nC:d"}}`):                              "has a line end",
		remote(`"header_forward":{"add_plaintext_headers":{"A":"b"},"add_headers_from_secret":{"a":"n"}}`): "stands there twice",
		remote(`"header_forward":{"add_headers_from_secret":{"A":"two words"}}`):                           "no name of a secret",
		remote(`"remote_auth_config":{"issuer":"http://auth.example/"}`):                                   "issuer does not begin with https://",
		remote(`"remote_auth_config":{"token_url":"https://a:b@auth.example/"}`):                           "token_url",
		remote(`"remote_auth_config":{"scopes":["a b"]}`):                                                  "scopes[0]",
		remote(`"remote_auth_config":{"bearer_token_file":"token"}`):                                       "bearer_token_file is no name",
		remote(`"remote_auth_config":{"bearer_token":"n,target=x","bearer_token_file":"/t"}`):              "says the same as bearer_token",
	} {
		c, err := Decode([]byte(text))
		var fault *Fault
		switch {
		case err == nil:
			t.Errorf("%.90s is %+v", text, c.Server())
		case !fs.Is(err, fs.ErrInvalid) || !errors.As(err, &fault) || !strings.Contains(err.Error(), want):
			t.Errorf("%.90s: %v, want %s", text, err, want)
		}
	}
}

func remote(more string) string { return `{"remote_url":"https://a.example/mcp",` + more + `}` }

// TestSecrets has a secret's value refused wherever it stands, and not told.
func TestSecrets(t *testing.T) {
	const value, bearer = "hunter2-hunter2", "ghp_0123456789abcdefghij"
	for text, want := range map[string]string{
		plain(`,"env_vars":{"GITHUB_TOKEN":"` + value + `"}`):                                          `env_vars.GITHUB_TOKEN holds what looks like a secret: take it out, write "GITHUB_TOKEN,target=GITHUB_TOKEN" in secrets (hutch server run -secret GITHUB_TOKEN,target=GITHUB_TOKEN), and keep it with hutch secret set GITHUB_TOKEN`,
		plain(`,"env_vars":{"X":"` + bearer + `"}`):                                                    "env_vars.X holds",
		plain(`,"env_vars":{"DB":"postgres://ann:` + value + `@db/x"}`):                                "env_vars.DB holds",
		plain(`,"env_vars":{"TOKEN_FILE":"` + bearer + `"}`):                                           "env_vars.TOKEN_FILE holds",
		plain(`,"cmd_args":["--token","` + value + `"]`):                                               "cmd_args[1] holds",
		plain(`,"cmd_args":["--api-key=` + value + `"]`):                                               "cmd_args[0] holds",
		plain(`,"cmd_args":["run","` + bearer + `"]`):                                                  "cmd_args[1] holds",
		plain(`,"secrets":["` + bearer + `,target=TOKEN"]`):                                            "secrets[0] holds",
		plain(`,"telemetry_config":{"headers":{"x-api-key":"` + value + `"}}`):                         "telemetry_config.headers.x-api-key holds",
		plain(`,"oidc_config":{"ClientSecret":"` + value + `"}`):                                       "oidc_config.ClientSecret holds",
		plain(`,"token_exchange_config":{"client_secret":"` + value + `"}`):                            "token_exchange_config.client_secret holds",
		plain(`,"invented":{"list":[{"password":"` + value + `"}]}`):                                   "invented.list[0].password holds",
		plain(`,"invented":["` + bearer + `"]`):                                                        "invented[0] holds",
		plain(`,"middleware_configs":[{"type":"obo","parameters":{"client_secret":"` + value + `"}}]`): "middleware_configs[0].parameters.client_secret holds",
		plain(`,"k8s_pod_template_patch":"{\"env\":[{\"password\":\"` + value + `\"}]}"`):              "k8s_pod_template_patch holds",
		plain(`,"container_labels":{"x":"` + bearer + `"}`):                                            "container_labels.x holds",
		remote(`"remote_auth_config":{"bearer_token":"` + value + `"}`):                                `remote_auth_config.bearer_token holds what looks like a secret: write "NAME,target=bearer_token"`,
		remote(`"remote_auth_config":{"client_secret":"` + value + `"}`):                               "remote_auth_config.client_secret holds",
		remote(`"remote_auth_config":{"ClientSecret":"` + value + `"}`):                                "remote_auth_config.ClientSecret holds",
		remote(`"remote_auth_config":{"oauth_params":{"client_secret":"` + value + `"}}`):              "oauth_params.client_secret holds",
		remote(`"header_forward":{"add_plaintext_headers":{"Authorization":"Bearer ` + value + `"}}`):  "write the name of a secret in header_forward.add_headers_from_secret",
		remote(`"header_forward":{"add_headers_from_secret":{"Authorization":"` + bearer + `"}}`):      "holds a secret, not its name",
	} {
		_, err := Decode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), value) || strings.Contains(err.Error(), bearer) || !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{ // in which something else is wrong
		`{"image":"npx://a","env_vars":{"X":"` + bearer + `"}`,
		`{"schema_version":"v9","env_vars":{"API_TOKEN":"` + value + `"}}`,
		`{"image":"::","cmd_args":["` + bearer + `"]}`,
		`{"image":"npx://a","env_vars":{"` + bearer + `/":"x"}}`,
		`{"image":"npx://a","` + bearer + `":1,"` + bearer + `":2}`,
	} {
		_, err := Decode([]byte(text))
		if !errors.Is(err, ErrSecret) || strings.Contains(err.Error(), value) || strings.Contains(err.Error(), bearer) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{"image":7,"secrets":["github,target=GITHUB_TOKEN"]}`, `{"env_vars":{"API_TOKEN":"secret:t"}`} {
		if _, err := Decode([]byte(text)); err == nil || errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		plain(`,"env_vars":{"GITHUB_TOKEN":"","MAX_TOKENS":"4096","TOKEN_FILE":"/run/x","API_KEY":"secret:k","TOKENIZER":"gpt","TOKEN_URL":"https://a.example/t","PASSWORD_ENV":"PW"}`),
		plain(`,"cmd_args":["--token-file","/x","--max-tokens=10","--token","env:T","--","-v"]`),
		remote(`"remote_auth_config":{"bearer_token":"env:T","client_secret":"cs,target=oauth_secret","token_url":"https://a.example/token"}`),
		remote(`"remote_auth_config":{"bearer_token":"BEARER_TOKEN_a,target=bearer_token"}`),
	} {
		if _, err := Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
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
		{"hutch.health_check", "false", `"hutch":{"health_check":false}`},
		{"hutch.ram", "1GiB", `"hutch":{"health_check":false,"ram":"1GiB"}`},
		{"hutch.disk", "5000000", `"disk":"5000000"`},
		{"env_vars.N", "12", `"N":"12"`},
		{"env_vars.J", `{"a":1}`, `"J":"{\"a\":1}"`},
		{"env_vars.J", "", `"env_vars":{"my.key":"a b","N":"12"}`},
		{"port", "8080", `"port":8080`}, // on which hutch does not act
		{"debug", "true", `"debug":true`},
		{"host", "127.0.0.1", `"host":"127.0.0.1"`},
		{"env_vars.my.key", "", `"env_vars":{"N":"12"}`},
		{"header_forward.add_plaintext_headers.X-A", "1", `"header_forward":{"add_plaintext_headers":{"X-A":"1"}}`},
		{"permission_profile", `{"name":"x"}`, `"permission_profile":{"name":"x"}`},
		{"permission_profile", "", `"odd":1.50,"env_vars"`},
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
		{"invented.password", "12345678", "holds what looks like a secret"},
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
