//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// elsewhere is an address of this machine that no guest takes for its own.
const elsewhere = "127.0.0.2"

// web starts a server that says who asked it for what.
func web(t *testing.T, secure bool) (s *httptest.Server, port string) {
	t.Helper()
	l, err := net.Listen("tcp", elsewhere+":0")
	if err != nil {
		t.Fatal(err)
	}
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.Path, len(body))
	}))
	s.Listener.Close()
	s.Listener = l
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return s, port
}

// TestNetwork goes out of a sandbox through the proxy, and tries other ways.
func TestNetwork(t *testing.T) {
	t.Parallel()
	need.Tool(t, "curl")
	plain, port := web(t, false)
	secure, securePort := web(t, true)
	s := serve(t, false)
	profile := fmt.Sprintf("net = \"host-proxy\"\n[network]\nallow = [\"%s:%s\", \"%s:%s\"]\nprivate = [\"%s\"]\n", elsewhere, port, elsewhere, securePort, elsewhere)
	s.write("profiles/default.toml", profile)
	s.vm("dev")
	curl := "curl -sS -m 60 "
	for _, c := range []struct{ line, want string }{
		{curl + plain.URL + "/a", "GET /a 0"},
		{curl + "-k " + secure.URL + "/b", "GET /b 0"},
		{"head -c 3000000 /dev/zero | " + curl + "-k -T - " + secure.URL + "/c", "PUT /c 3000000"},
		{"head -c 3000000 /dev/zero | " + curl + "-T - " + plain.URL + "/d", "PUT /d 3000000"},
		{"for i in 1 2 3 4 5 6 7 8; do " + curl + plain.URL + "/e & done; wait", strings.Repeat("GET /e 0", 8)},
		{"echo $http_proxy $HTTPS_PROXY $no_proxy $HUTCH_NET", "http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1\n"},
	} {
		if out, status := s.sh("dev", c.line); out != c.want || status != "0" {
			t.Errorf("%s: %s %q, want %q", c.line, status, out, c.want)
		}
	}
	for _, c := range []struct{ line, want string }{
		{curl + "http://example.com/", "hutch: the profile default does not allow example.com\nhost: example.com:80\nrule: default\nto do: have \"example.com\" added to allow in [network] of profiles/default.toml, and reload written to hutch's ctl\n"},
		{curl + "-o /dev/null -w '%{http_code}' http://example.com/", "403"},
		{curl + "-v https://example.com/ | grep '< HTTP'", "< HTTP/1.1 403 hutch: the profile default does not allow example.com"},
		{curl + "http://127.0.0.3:" + port + "/", "does not allow 127.0.0.3"},
		{curl + "http://" + elsewhere + ":1/", "but not its port 1\n"},
		{curl + "http://169.254.169.254/latest/meta-data/", "does not allow 169.254.169.254"},
		{curl + "-x http://127.0.0.1:3128 --noproxy '' http://localhost:" + port + "/", "does not allow localhost"},
	} {
		if out, _ := s.sh("dev", c.line); !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q", c.line, out, c.want)
		}
	}
	direct := curl + "--noproxy '*' "
	for _, line := range []string{
		direct + plain.URL, direct + "http://example.com/", direct + "http://1.1.1.1/", "getent hosts example.com",
		direct + "telnet://" + elsewhere + ":" + port, "exec 3<>/dev/udp/8.8.8.8/53 && echo x >&3",
	} {
		if out, status := s.sh("dev", line); status == "0" {
			t.Errorf("%s: %q", line, out)
		}
	}
	proxy := s.proxy("dev")
	s.write("vm/dev/ctl", "stop\n") // a request is told of when it has ended
	checkNetLog(t, s, port)
	if line, runs := processes("/locald\x00proxy")[proxy]; runs {
		t.Errorf("after stop: %s", line)
	}
}

// proxy returns the process of a VM's proxy.
func (s *service) proxy(vm string) (pid int) {
	s.t.Helper()
	status := s.read("vm/" + vm + "/status")
	for line := range strings.Lines(status) {
		fmt.Sscanf(line, "proxy %d", &pid)
	}
	if pid == 0 {
		s.t.Fatalf("no proxy in %q", status)
	}
	return pid
}

// checkNetLog checks what TestNetwork left in log/net and events.
func checkNetLog(t *testing.T, s *service, port string) {
	t.Helper()
	type line struct {
		Host, Method, Path, Decision, Rule, Reason, Process_name string
		Port, Status                                             int
		Bytes_sent, Bytes_received                               int64
	}
	seen := map[string]line{} // of a kind the one that sent most: they are told of as they end, which is in any order
	for text := range strings.Lines(s.read("vm/dev/log/net")) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		if what := l.Method + " " + l.Host + l.Path; l.Bytes_sent >= seen[what].Bytes_sent {
			seen[what] = l
		}
	}
	if l := seen["PUT "+elsewhere+"/d"]; l.Decision != "allowed" || l.Bytes_sent != 3000000 || l.Status != 200 || fmt.Sprint(l.Port) != port || l.Rule != "allow "+elsewhere+":"+port || l.Process_name != "curl" {
		t.Errorf("PUT: %+v", l)
	}
	if l := seen["CONNECT "+elsewhere]; l.Decision != "allowed" || l.Bytes_sent < 3000000 {
		t.Errorf("CONNECT: %+v", l)
	}
	for _, what := range []string{"GET example.com/", "CONNECT example.com", "GET 169.254.169.254/latest/meta-data/"} {
		if l := seen[what]; l.Decision != "denied" || l.Rule != "default" || l.Status != 403 || l.Reason == "" || l.Bytes_received != 0 {
			t.Errorf("%s: %+v", what, l)
		}
	}
	if events := s.read("vm/dev/log/security"); strings.Count(events, `"event":"net.denied","rule":"default","text":"GET example.com:80: `) != 1 {
		t.Errorf("security events: %s", events)
	}
}

// TestNetworkGoesOn changes the profile, kills the proxy and restarts hutchd under
// a VM that runs.
func TestNetworkGoesOn(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	need.Tool(t, "curl")
	plain, _ := web(t, false)
	s := serve(t, false)
	s.write("profiles/default.toml", "net = \"host-proxy\"\n")
	s.vm("dev")
	get := func(want string) {
		t.Helper()
		if out, _ := s.sh("dev", "curl -sS -m 60 "+plain.URL+"/x"); !strings.Contains(out, want) {
			t.Errorf("%q, want %q", out, want)
		}
	}
	get("does not allow " + elsewhere)
	s.write("profiles/default.toml", fmt.Sprintf("net = \"host-proxy\"\n[network]\nallow = [\"%s:*\"]\n", elsewhere))
	if errs := s.read("profiles/err"); !strings.Contains(errs, "has no port from 1 to 65535") {
		t.Errorf("profiles/err: %q", errs)
	}
	allowed := fmt.Sprintf("net = \"host-proxy\"\n[network]\nallow = [\"%s\"]\n", plain.Listener.Addr())
	s.write("profiles/default.toml", allowed)
	s.write("ctl", "reload\n")
	get("leads to an address that is not public")
	s.write("profiles/default.toml", allowed+"private = [\"127.0.0.0/8\"]\n")
	s.write("ctl", "reload\n")
	get("GET /x 0")
	for range 3 {
		syscall.Kill(s.proxy("dev"), syscall.SIGKILL)
		if out, _ := s.sh("dev", "for i in 1 2 3 4 5 6 7 8 9; do curl -sS -m 60 "+plain.URL+"/x; done"); !strings.Contains(out, "GET /x 0") {
			t.Errorf("after its end: %q", out)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		s.signal(sig)
		s.start()
		get("GET /x 0")
	}
	s.write("vm/dev/ctl", "suspend\nresume\n")
	get("GET /x 0")
	s.write("vm/dev/ctl", "fork -live twin\n")
	if out, _ := s.sh("twin", "curl -sS -m 60 "+plain.URL+"/x"); out != "GET /x 0" {
		t.Errorf("the twin: %q", out)
	}
	s.write("vm/twin/ctl", "stop\n")
	if log := s.read("vm/twin/log/net"); strings.Count(log, "\n") != 1 {
		t.Errorf("the twin's log/net: %q", log)
	}
	s.mkdir("vm/other")
	s.write("vm/other/ctl", "set net none\nstart\n")
	for line, want := range map[string]string{
		"ls /run/hutch": "5000\n5002\n", "env | grep -ic proxy": "0\n", "curl -sS -x http://127.0.0.1:3128 http://example.com/ 2>/dev/null; echo $?": "7\n",
	} {
		if out, _ := s.sh("other", line); out != want {
			t.Errorf("with no network, %s: %q", line, out)
		}
	}
	if text := s.read("vm/other/status"); strings.Contains(text, "proxy") {
		t.Errorf("status %q", text)
	}
}

// TestNetworkRules has rules for what the patterns allow, which change under a
// VM that runs.
func TestNetworkRules(t *testing.T) {
	t.Parallel()
	need.Tool(t, "curl")
	plain, port := web(t, false)
	secure, securePort := web(t, true)
	s := serve(t, false)
	profile := fmt.Sprintf("net = \"host-proxy\"\n[network]\nallow = [\"%s:%s\", \"%s:%s\"]\nprivate = [\"%s\"]\n", elsewhere, port, elsewhere, securePort, elsewhere)
	rules := `[security]
default = "block"
[security.rules.web.read]
on = "http"
if = 'http.method == "GET" && http.path.startsWith("/docs/")'
decision = "allow"
[security.rules.web.tunnels]
on = "http"
if = 'http.method == "CONNECT" && http.scheme == "https" && http.path == "" && http.port == ` + securePort + `'
decision = "block"
reason = "no tunnels here"
[security.rules.web.write]
on = "http"
if = 'http.method != "GET" && vm.name == "dev"'
decision = "block"
reason = "read only"
`
	s.write("profiles/default.toml", profile+rules)
	s.vm("dev")
	curl := "curl -sS -m 60 --path-as-is "
	check := func(line, want string) {
		t.Helper()
		if out, _ := s.sh("dev", line); !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q", line, out, want)
		}
	}
	check(curl+plain.URL+"/docs/a", "GET /docs/a 0")
	check(curl+plain.URL+"/other", "GET /other 0") // network.allow has it, whatever the default is
	check(curl+"-d x "+plain.URL+"/docs/a", "hutch: read only\nhost: "+elsewhere+":"+port+"\nrule: security.rules.web.write\n")
	check(curl+"-v -k "+secure.URL+"/ | grep '< HTTP'", "< HTTP/1.1 403 hutch: no tunnels here")
	check(curl+plain.URL+"/docs/%2e%2e/secret", "has .. in it\n")
	check(curl+"http://example.com/", "does not allow example.com")
	s.write("profiles/default.toml", profile)
	s.write("ctl", "reload\n")
	check(curl+"-d x "+plain.URL+"/docs/a", "POST /docs/a 1")
	check(curl+"-k "+secure.URL+"/b", "GET /b 0")
	s.write("profiles/default.toml", profile+rules)
	s.write("ctl", "reload\n")
	check(curl+"-d x "+plain.URL+"/docs/a", "hutch: read only\n")
	s.write("vm/dev/ctl", "stop\n")
	log := s.read("vm/dev/log/net")
	for _, want := range []string{
		`"decision":"allowed","rule":"security.rules.web.read"`, `"decision":"denied","rule":"security.rules.web.tunnels","reason":"no tunnels here"`,
		`"decision":"denied","rule":"security.rules.web.write","reason":"read only"`, `"rule":"allow ` + elsewhere + ":" + port + `"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("log/net has no %s: %s", want, log)
		}
	}
	if events := s.read("vm/dev/log/security"); !strings.Contains(events, `"event":"net.denied"`) || !strings.Contains(events, "read only") {
		t.Errorf("security events: %s", events)
	}
}

// TestNetworkAsks has a person allow and deny requests by the files of asks/,
// and a program that does not wait for the answer.
func TestNetworkAsks(t *testing.T) {
	t.Parallel()
	need.Tool(t, "curl")
	plain, port := web(t, false)
	s := serve(t, false)
	s.write("profiles/default.toml", fmt.Sprintf(`net = "host-proxy"
[network]
allow = ["%s:%s"]
private = ["%s"]
[security.rules.web.write]
on = "http"
if = 'http.method == "POST"'
decision = "ask"
reason = "writing is for people to allow"
`, elsewhere, port, elsewhere))
	s.vm("dev")
	asked := func(path string) (id string) {
		t.Helper()
		poll(t, "a question about "+path, func() bool {
			id = s.asked(path)
			return id != ""
		})
		return id
	}
	post := func(path string) (end func() (out, status string)) {
		return s.begin("dev", "exec curl -sS -m 60 -d x "+plain.URL+path)
	}

	yes := post("/yes")
	s.write("asks/"+asked("/yes")+"/answer", "allow\n")
	if out, _ := yes(); out != "POST /yes 1" {
		t.Errorf("allowed: %q", out)
	}
	no := post("/no")
	s.write("asks/"+asked("/no")+"/answer", "deny not today\n")
	if out, _ := no(); !strings.Contains(out, "not today") {
		t.Errorf("denied: %q", out)
	}
	gone := post("/gone")
	asked("/gone")
	s.sh("dev", "pkill -f [/]gone")
	if _, status := gone(); status == "0" {
		t.Error("curl was not killed")
	}
	poll(t, "the question is gone with who asked", func() bool { return s.asked("/gone") == "" })
	again := post("/again") // the proxy still serves
	s.write("asks/"+asked("/again")+"/answer", "allow\n")
	if out, _ := again(); out != "POST /again 1" {
		t.Errorf("after one that is gone: %q", out)
	}
	s.write("vm/dev/ctl", "stop\n")
	log := s.read("vm/dev/log/net")
	if strings.Count(log, `"decision":"allowed"`) != 2 || !strings.Contains(log, `"reason":"not today"`) || !strings.Contains(log, `"path":"/gone"`) {
		t.Errorf("log/net: %s", log)
	}
}

// asked returns the id of the question whose request has the text, "" if none
// waits.
func (s *service) asked(text string) (id string) {
	s.t.Helper()
	entries, err := s.client().ReadDir("asks")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		f, err := s.client().Open("asks/"+e.Name+"/request", os.O_RDONLY)
		if err != nil { // no question, or one that has ended
			continue
		}
		request, _ := io.ReadAll(f)
		f.Close()
		if strings.Contains(string(request), text) {
			return e.Name
		}
	}
	return ""
}
