package runconfig

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hutch/fs"
)

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
		plain(`,"tools_override":{"ghp_abcdefghijklmnopqrstuvwxyz0123456789":{"name":"x"}}`):               "tools_override has what looks like a secret",
		plain(`,"tools_override":{"x":{"name":"ghp_abcdefghijklmnopqrstuvwxyz0123456789"}}`):               "tools_override has what looks like a secret",
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
