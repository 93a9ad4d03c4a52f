//go:build linux

package main_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hutch/fs/need"
	"hutch/vmm/image/imagetest"
)

// toldBy calls the tool of a server that is the program teller.
func (s *service) toldBy(server, want string) {
	s.t.Helper()
	if text := s.use("servers/"+server+"/tools/tell", "{}"); !strings.Contains(text, want) {
		s.t.Errorf("%s tells %s, want %s", server, text, want)
	}
}

// TestServerOwn has a program of a person, and an image that is here, be servers.
func TestServerOwn(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(testProgram(t, "teller"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "my tools")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"teller": string(program), "note": "a note beside", "more/data": "more"} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, false)
	run := s.command("hutch", "server", "-v", "more:/data:ro", "run", "./teller", "--", "an argument")
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil || string(out) != "teller\n" {
		t.Fatalf("hutch server run ./teller: %v, %s", err, out)
	}
	s.toldBy("teller", `[\"an argument\"] a note beside`)
	wantText(t, s.read("servers/teller/status"), "folder '"+dir+"' '"+dir+"' ro\n", "folder '"+dir+"/more' /data ro\n")
	s.hutch("server", "stop", "teller")
	s.hutch("server", "start", "-all")
	s.toldBy("teller", "a note beside")
	s.refused("/nosuch/prog is no program of this machine", "server", "run", "/nosuch/prog")
	s.refused("is no program of this machine", "server", "-name", "folder", "run", dir)
	home, _ := os.UserHomeDir()
	if file := filepath.Join(home, "hutch-test-prog"); os.WriteFile(file, program, 0o755) == nil {
		s.refused("put it into a folder of its own", "server", "run", file)
		os.Remove(file)
	}

	saved := filepath.Join(t.TempDir(), "own.tar")
	imagetest.Save(t, saved, imagetest.Image(t, imagetest.Tar(imagetest.Program("hello", string(program)), imagetest.Dir("srv", 0o755),
		imagetest.File("etc/passwd", "root:x:0:0::/:/\napp:x:77:78::/srv:/\n"), imagetest.File("etc/group", "app:x:78:\n"))))
	s.hutch("import", saved)
	s.hutch("server", "-name", "boxed", "run", "image:own", "--", "word")
	s.toldBy("boxed", `[\"word\"]`)
	s.refused("nosuch", "server", "run", "image:nosuch")

	s.hutch("group", "make", "dev")
	s.hutch("group", "add", "dev", "boxed", "teller")
	s.hutch("group", "remove", "dev", "teller")
	if text := s.hutch("group", "ls"); !strings.Contains(text, "dev      idle   0      boxed\n") || !strings.Contains(text, "default  idle   0      -\n") {
		t.Errorf("the groups are %s", text)
	}
	s.refused(`no group "dve"; hutch group ls lists them`, "group", "add", "dve", "boxed")
	s.hutch("server", "stop", "-group", "dev")
	s.is("boxed", "stopped")
	s.is("teller", "running")
	s.refused("name servers, or say -all", "server", "rm")
	s.hutch("server", "rm", "-all")
	if text := s.names("servers"); text != "" {
		t.Errorf("of servers are left %s", text)
	}
}

// TestServerFolder has a package of Go that is being written be a server: it is built anew
// whenever it is started.
func TestServerFolder(t *testing.T) {
	t.Parallel()
	need.Patience(t)
	need.Tool(t, "go")
	text, err := os.ReadFile("testdata/teller/main.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cmd/mine")
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write("../../go.mod", []byte("module example.com/m\n\ngo 1.21\n"))
	write("main.go", text)
	s := serve(t, false)
	run := s.command("hutch", "server", "run", "go://./mine", "--", "first")
	run.Dir = filepath.Dir(dir)
	if out, err := run.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "mine\n") {
		t.Fatalf("hutch server run go://./mine: %v, %s", err, out)
	}
	s.toldBy("mine", `[\"first\"]`)
	write("main.go", bytes.Replace(text, []byte(`"%q %s"`), []byte(`"anew %q %s"`), 1))
	s.hutch("server", "restart", "mine")
	s.toldBy("mine", `anew [\"first\"]`)
	write("main.go", []byte("package main\n\nfunc main() { nosuch() }\n"))
	s.refused("undefined: nosuch", "server", "restart", "mine")
	s.is("mine", "error")
}

// TestServerRefusesToken has a remote server take no token that its config says, from the
// start, and later.
func TestServerRefusesToken(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "r", Version: "1"}, nil)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var good atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !good.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	s := serve(t, false)
	s.write("secrets/tok", "bad")
	s.refused("answers HTTP 401 to the token secret:tok: store another by hutch secret set tok", "server", "-name", "r", "-keep", "-bearer", "tok", "run", web.URL+"/mcp")
	s.is("r", "unauthenticated")
	s.refused("answers HTTP 401 to what header_forward has it be sent", "server", "-name", "h", "-header", "Authorization: secret:tok", "run", web.URL+"/mcp")
	good.Store(true)
	s.hutch("server", "start", "r")
	s.is("r", "running")
	good.Store(false)
	s.is("r", "unauthenticated") // once it is asked whether it is well
}

// TestServerImport has a copy of a server be in no group, and nothing be taken that no start
// would give.
func TestServerImport(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	file := filepath.Join(t.TempDir(), "x.json")
	for config, why := range map[string]string{
		`{"image":"npx://x","permission_profile":{"network":{"inbound":{"allow_host":["localhost"]}}}}`: "permission_profile.network.inbound.allow_host would say who may call the server",
		`{"image":"npx://x","permission_profile":{"write":["volume://a:/a"]}}`:                          "which there is not here",
		`{"image":"npx://x","volumes":["volume://a:/a"]}`:                                               "which there is not here",
		`{"image":"npx://x","permission_profile":{"privileged":true}}`:                                  "privileged: no server is",
		`{"remote_url":"https://a.example/mcp","remote_auth_config":{"oauth_params":{"state":"x"}}}`:    "oauth_params: state is hutch's to say",
		`{"remote_url":"http://a.example/mcp","remote_auth_config":{"client_id":"x"}}`:                  "is not https",
	} {
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		s.refused(why, "server", "import", file)
	}
	s.mkdir("servers/set")
	if err := s.tryWrite("servers/set/ctl", "set permission_profile '{\"privileged\":true}'\n"); err == nil {
		t.Errorf("set takes what no start gives")
	}
	s.mkdir("groups/dev")
	if err := os.WriteFile(file, []byte(`{"image":"npx://x","group":"gone"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := s.hutch("server", "import", file); !strings.Contains(out, "it is in no group: hutch group add GROUP x puts it into one") {
		t.Errorf("hutch server import prints %s", out)
	}
	if text := s.read("groups/default/members"); text != "set\n" {
		t.Errorf("the group has %s", text)
	}
	wantText(t, s.read("servers/x/status"), "\ngroup -\n")
	s.hutch("server", "-name", "y", "-group", "dev", "import", file)
	s.hutch("group", "add", "default", "x")
	if text := s.read("groups/default/members") + s.read("groups/dev/members"); text != "set\nx\ny\n" {
		t.Errorf("the groups have %s", text)
	}
}
