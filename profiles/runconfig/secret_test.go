package runconfig

import (
	"errors"
	"strings"
	"testing"
)

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
		remote(`"remote_auth_config":{"bearer_token":"` + bearer + `,target=bearer_token"}`):           `remote_auth_config.bearer_token holds what looks like a secret: write "NAME,target=bearer_token"`,
		remote(`"remote_auth_config":{"client_secret":"secret:` + bearer + `,target=x"}`):              "remote_auth_config.client_secret holds what looks like a secret",
		remote(`"remote_auth_config":{"client_secret":"secret:` + bearer + `"}`):                       "remote_auth_config.client_secret holds what looks like a secret",
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
		plain(`,"cmd_args":["--token-file","/x","--max-tokens=10","--token","env:T","--api_key","{API_KEY}","--","-v"]`),
		remote(`"remote_auth_config":{"bearer_token":"env:T","client_secret":"cs,target=oauth_secret","token_url":"https://a.example/token"}`),
		remote(`"remote_auth_config":{"bearer_token":"BEARER_TOKEN_a,target=bearer_token"}`),
	} {
		if _, err := Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
