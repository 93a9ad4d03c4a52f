package workload

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hutch/profiles/permission"
	"hutch/profiles/registry"
	"hutch/profiles/runconfig"
)

// greedy is a registry of a server that wants to see folders of the host, of one whose
// secret is not marked as such, and of one whose permissions are none.
const greedy = `{"version":"1.0.0","servers":{
	"every":{"transport":"stdio","image":"npx://every","permissions":{"network":{"outbound":{"allow_host":["*"]}}}},
	"unmarked":{"transport":"stdio","image":"npx://unmarked","env_vars":[{"name":"ACME_API_KEY","required":true},{"name":"ACME_HOST","required":true}]},
	"greedy":{"transport":"stdio","image":"npx://greedy@1.0.0","tools":[],
	"permissions":{"read":["/srv/keys"],"write":["/srv/keys","/srv/\"more\""],"network":{"outbound":{"insecure_allow_all":true}}}}}}`

// telling is a server that wants secrets among its arguments.
const telling = `{"name":"telling","packages":[{"registryType":"npm","identifier":"telling","version":"1.0.0","transport":{"type":"stdio"},"packageArguments":[
	{"type":"named","name":"--api-token","value":"{token}","variables":{"token":{"isRequired":true,"isSecret":true}}}]}]}`

// entries are the sources of the registry's own tests, and greedy.
func entries(t *testing.T) *registry.Store {
	t.Helper()
	s, err := registry.Open(registry.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"greedy.json": greedy, "telling.json": telling} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const others = "../../../profiles/registry/testdata/"
	for _, file := range []string{others + "server.json", others + "remote.json", others + "toolhive.json", filepath.Join(dir, "greedy.json"), filepath.Join(dir, "telling.json")} {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(t.Context(), registry.Origin{Kind: "file", Where: path}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// take returns the config that a run of words makes of one.
func take(t *testing.T, s *registry.Store, config, words string) (string, error) {
	t.Helper()
	c, err := runconfig.Decode([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	ref, args, _ := strings.Cut(words, " ")
	source, err := runconfig.ParseSource(ref)
	if err != nil {
		t.Fatal(err)
	}
	r := run{Server: *c.Server(), registry: s}
	if err := r.take(source, strings.Fields(args)); err != nil {
		return "", err
	}
	if c, err = c.With(&r.Server); err != nil {
		return "", err
	}
	return strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(string(c.Text())), nil
}

func TestRun(t *testing.T) {
	s := entries(t)
	const (
		forge = `{"env_vars":{"FORGE_HOST":"h"},"secrets":["tok,target=FORGE_TOKEN"]}`
		of    = `"image":"ghcr.io/example/forge-mcp:v1.4.0"`
	)
	for _, test := range []struct{ config, words, want string }{
		{`{}`, "npx://a", `{"schema_version":"v0.1.0","image":"npx://a","transport":"stdio"}`},
		{`{}`, "https://a.example/mcp", `"remote_url":"https://a.example/mcp","transport":"streamable-http"`},
		{`{"transport":"sse"}`, "https://a.example/mcp", `"transport":"sse"`},
		{`{"image":"npx://b","cmd_args":["x"],"group":"g"}`, "npx://a y", `{"image":"npx://a","cmd_args":["y"],"group":"g"`},
		{`{"remote_url":"https://a.example","transport":"sse"}`, "npx://a", `"transport":"stdio"`},
		{`{}`, "nosuch/image", `"image":"nosuch/image"`},

		{`{}`, "everything", `"image":"npx://@modelcontextprotocol/server-everything@`},
		{`{}`, "everything", `"registry_server_name":"everything"`},
		{`{}`, "filesystem /a /b", `"cmd_args":["/a","/b"]`},
		{`{"registry_server_name":"everything","image":"npx://x"}`, "npx://a", `{"image":"npx://a","schema_version":"v0.1.0"}`},

		{forge, "io.example/forge", of},
		{forge, "io.example/forge", `"transport":"streamable-http","target_port":8080`},
		{forge, "io.example/forge", `"secrets":["tok,target=FORGE_TOKEN"]`},
		{forge, "io.example/forge", `"permission_profile":{"network":{"outbound":{"allow_host":[".forge.example"],"allow_port":[443]}}}`},
		{forge, "io.example/forge --mode rw --port=9 /keep more", `"cmd_args":["serve","--port","9","--mode","rw","/keep","more"]`},
		{forge, "io.example/forge --port=9", `"target_port":9`},
		{`{"env_vars":{"FORGE_HOST":"h","FORGE_TOKEN":"vault:kv/f/token"}}`, "io.example/forge", `"secrets":["vault:kv/f/token,target=FORGE_TOKEN"]`},
		{`{"env_vars":{"FORGE_HOST":"h","MORE":"1"},"secrets":["tok,target=FORGE_TOKEN"],"permission_profile":{"name":"own"}}`, "io.example/forge", `"permission_profile":{"name":"own"}`},
		{`{"env_vars":{"FORGE_HOST":"h","MORE":"1"},"secrets":["tok,target=FORGE_TOKEN"]}`, "io.example/forge", `"env_vars":{"FORGE_DEBUG":"false","FORGE_HOST":"h","MORE":"1"}`},

		{`{"env_vars":{"tenant":"t"},"secrets":["k,target=key"]}`, "com.example/remote", `"remote_url":"https://t.example.com/mcp"`},
		{`{"env_vars":{"tenant":"t"},"secrets":["k,target=key"]}`, "com.example/remote", `"bearer_token":"k,target=bearer_token"`},
		{`{"env_vars":{"X-Key":"secret:desk"}}`, "desk", `"add_headers_from_secret":{"X-Key":"desk"}`},
		{`{"env_vars":{"X-Key":"secret:desk"},"header_forward":{"add_plaintext_headers":{"X-Team":"docs"}}}`, "desk", `"add_plaintext_headers":{"X-Team":"docs"}`},
		{`{"env_vars":{"X-Key":"secret:desk"}}`, "desk", `"issuer":"https://login.desk.example"`},
		{`{"volumes":["/srv/keys:/srv/keys:ro","/srv/\"more\":/srv/\"more\""]}`, "greedy", `"permission_profile":{"network":{"outbound":{"insecure_allow_all":true}}}`},
		{`{"permission_profile_name_or_path":"none"}`, "greedy", `{"permission_profile_name_or_path":"none","schema_version":"v0.1.0","image":"npx://greedy@1.0.0","transport":"stdio","registry_server_name":"greedy"}`},
	} {
		if got, err := take(t, s, test.config, test.words); err != nil || !strings.Contains(got, test.want) {
			t.Errorf("run %s of %s: %v\n%s\nwant %s", test.words, test.config, err, got, test.want)
		}
	}
}

func TestRunRefused(t *testing.T) {
	s := entries(t)
	for _, test := range []struct{ config, words, want string }{
		{`{}`, "io.example/Forge", "did you mean io.example/forge"},
		{`{}`, "io.example/forge", "entry io.example/forge needs FORGE_HOST (host of the forge): set env_vars.FORGE_HOST VALUE; " +
			"FORGE_TOKEN (of the forge), a secret: hutch secret set FORGE_TOKEN, and set env_vars.FORGE_TOKEN secret:FORGE_TOKEN"},
		{`{}`, "filesystem", "needs folder (a folder that it may read and write; more of them may follow): write it behind the name"},
		{`{"env_vars":{"FORGE_HOST":"h"},"secrets":["t,target=FORGE_TOKEN"]}`, "io.example/forge --mode all", "--mode is one of ro rw"},
		{`{"env_vars":{"tenant":"t","OTHER":"x"},"secrets":["k,target=key"]}`, "com.example/remote", "OTHER: a remote server has no environment"},
		{`{}`, "telling", "entry telling: not supported: it wants a secret among its arguments, where others can read it: if a variable can hold it, too, run npx://telling@1.0.0 with that"},
		{`{"env_vars":{"--api-token":"secret:t"}}`, "telling", "it wants a secret among its arguments"},
		{`{}`, "every", "insecure_allow_all says that: set permission_profile says yourself what it may, and so does hutch server run with -permissions"},
		{`{}`, "unmarked", "needs ACME_API_KEY, a secret: hutch secret set ACME_API_KEY, and set env_vars.ACME_API_KEY secret:ACME_API_KEY; " +
			"ACME_HOST: set env_vars.ACME_HOST VALUE; or hutch server run with -e ACME_API_KEY=secret:ACME_API_KEY -e ACME_HOST=VALUE"},
		{`{}`, "greedy", `it wants to see folders of the host, which only you can show it: set volumes ["/srv/keys:/srv/keys","/srv/\"more\":/srv/\"more\""], with :ro`},
		{`{}`, "greedy", "run with -v /srv/keys:/srv/keys -v '/srv/\"more\":/srv/\"more\"'"},
		{`{"volumes":["/a:/b:ro","/srv/keys:/srv/keys"]}`, "greedy", `: set volumes ["/a:/b:ro","/srv/keys:/srv/keys","/srv/\"more\":/srv/\"more\""], with :ro`},
		{`{"env_vars":{"tenant":"t"}}`, "com.example/remote", "key, a secret: hutch secret set key, and set env_vars.key secret:key"},
	} {
		if got, err := take(t, s, test.config, test.words); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("run %s of %s: %v, want %s\n%s", test.words, test.config, err, test.want, got)
		}
	}
}

// TestRunOther has what an entry allowed, and what it knew, not be for what is run
// after it.
func TestRunOther(t *testing.T) {
	s := entries(t)
	first, err := take(t, s, `{"env_vars":{"FORGE_HOST":"h","MORE":"1"},"secrets":["tok,target=FORGE_TOKEN"]}`, "io.example/forge")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"npx://a", "everything", "https://a.example"} {
		got, err := take(t, s, first, ref)
		if err != nil || strings.Contains(got, "forge") || strings.Contains(got, "FORGE") || strings.Contains(got, "8080") || !strings.Contains(got, `"MORE":"1"`) {
			t.Errorf("%v: after it %s is %s", err, ref, got)
		}
	}
	again, err := take(t, s, first, "io.example/forge")
	if err != nil || again != first {
		t.Errorf("%v: run again it is %s\nand was %s", err, again, first)
	}
	moved, err := take(t, s, first, "io.example/forge --port=9")
	if err != nil || !strings.Contains(moved, `"target_port":9`) {
		t.Errorf("%v: run again at another port it is %s", err, moved)
	}
	gone, err := take(t, s, strings.Replace(first, "io.example/forge", "io.example/gone", 1), "npx://a")
	if err != nil || strings.Contains(gone, "tok") || strings.Contains(gone, "permission") {
		t.Errorf("%v: of an entry that is gone there is left %s", err, gone)
	}
}

// TestAsFlags has a shell read the folders that flags show.
func TestAsFlags(t *testing.T) {
	folders := []permission.Mount{{Host: "/b", Guest: "/b"}, {Host: "/it's $(id)", Guest: "/a b", ReadOnly: true}}
	_, flags, _ := strings.Cut(asFlags(folders), " with ")
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+flags).Output()
	if want := "-v\n/b:/b\n-v\n/it's $(id):/a b:ro\n"; err != nil || string(out) != want {
		t.Errorf("%s is %q, %v", flags, out, err)
	}
}

// TestRunHint has who runs a server that does not see a folder be told of that.
func TestRunHint(t *testing.T) {
	s, dir := entries(t), t.TempDir()
	for mounts, want := range map[string]bool{`[]`: true, `["/srv:/srv"]`: true, `["/srv:` + filepath.Dir(dir) + `"]`: false} {
		c, err := runconfig.Decode([]byte(`{"volumes":` + mounts + `}`))
		if err != nil {
			t.Fatal(err)
		}
		r := run{Server: *c.Server(), registry: s}
		if err := r.take(runconfig.Source{Kind: runconfig.Named, Name: "filesystem"}, []string{dir}); err != nil {
			t.Fatal(err)
		}
		text := r.explain(errors.New("it ended")).Error()
		if strings.Contains(text, "does not show "+dir) != want || strings.Contains(text, `set volumes ["/srv:/srv",`) != (want && mounts != "[]") {
			t.Errorf("with %s: %s", mounts, text)
		}
		said := errors.New("it ended; " + notShown + " " + dir + ": do")
		text, wanted := r.explain(said).Error(), said.Error()
		if want {
			wanted += "; or hutch server run with -v " + dir + ":" + dir + ":ro"
		}
		if text != wanted {
			t.Errorf("with %s: what was said becomes %s", mounts, text)
		}
	}
}
