//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// teller returns what the server called t tells.
func (s *service) teller() string { return s.use("servers/t/tools/tell", "{}") }

// TestServerInstalled has a server's package be installed without the server's
// secrets, and the server run without the registry, and not installed again but by
// who asks for a newer one.
func TestServerInstalled(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	for _, name := range []string{"npm", "curl"} {
		need.Tool(t, name)
	}
	const name, token = "@test/teller", "token-4711-0815"
	s := serve(t, true)
	if out, err := s.secret(token, "set", "t"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.mkdir("servers/t")
	s.write("servers/t/config", `{"image":"npx://`+name+`","secrets":["t,target=TOKEN"],"env_vars":{"MARK":"told","KEPT":"secret:t"},"hutch":{"ram":"1GiB","disk":"700MiB"}}`)
	s.write("servers/t/ctl", "start\n")
	if text := s.teller(); !strings.Contains(text, "1.1.0 has [redacted]") {
		t.Errorf("it tells %s", text)
	}
	wantText(t, s.read("vm/server-t/config"), "ram 1GiB\n", "disk 700MiB\n")
	env := s.read("vm/server-t/work/installed-env")
	wantText(t, env, "HOME=/workspace\n", "MARK=told\n", "PUPPETEER_SKIP_DOWNLOAD=1\n")
	if strings.Contains(env, token) || strings.Contains(env, "TOKEN") || strings.Contains(env, "KEPT") {
		t.Errorf("its package was installed with %s", env)
	}
	if node, _ := exec.LookPath("node"); node == "/usr/bin/node" {
		if _, err := os.Stat("/usr/include/node/node.h"); err == nil {
			wantText(t, env, "npm_config_nodedir=/usr\n")
		}
	}
	log := s.read("servers/t/log/server")
	if !strings.Contains(log, "t: denied elsewhere.example.com:443 while the package was installed") {
		t.Errorf("the log is %s", log)
	}
	if !strings.Contains(log, "t: @test/teller wants node >=999, and this is v") {
		t.Errorf("of a node that is too old the log says nothing: %s", log)
	}
	if node, _ := exec.Command("node", "--version").Output(); strings.HasPrefix(string(node), "v20.") && !strings.Contains(log, "t: the fetch of node v20.") {
		t.Errorf("of the node %s the log says nothing: %s", node, log)
	}
	if out, _ := s.sh("server-t", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "4711") {
		t.Errorf("what installed it still runs: %s", out)
	}
	s.deniedTo(npm().URL)

	asked := npm().took(name)
	s.signal(syscall.SIGKILL)
	s.start()
	poll(t, "the server to run", func() bool { return strings.HasPrefix(s.read("servers/t/status"), "running\n") })
	if now := npm().took(name); now != asked {
		t.Errorf("the registry is asked %d times more for a restart of hutchd", now-asked)
	}
	s.write("servers/t/ctl", "restart\n") // which looks for a newer one
	if now := npm().took(name); now <= asked {
		t.Error("the registry is not asked for a newer version")
	}
	npm().close(name, true)
	s.write("servers/t/ctl", "restart\n")
	if text := s.read("servers/t/log/server"); !strings.Contains(text, "what is installed is run") {
		t.Errorf("without the registry the log is %s", text)
	}
	npm().close(name, false)
	s.write("servers/t/ctl", "stop\nset image npx://"+name+"@1.0.0\nstart\n")
	if text := s.teller(); !strings.Contains(text, "1.0.0 has [redacted]") {
		t.Errorf("it tells %s", text)
	}
	log = s.read("servers/t/log/server")
	if strings.Contains(log, "wants node >=1,") {
		t.Errorf("a node that is new enough is told of: %s", log)
	}
	if strings.Count(log, "the fetch of node") > 2 {
		t.Errorf("it was installed twice, and what is to be known of its node is said more often: %s", log)
	}
	asked = npm().took(name)
	s.write("servers/t/ctl", "restart\n")
	if now := npm().took(name); now != asked {
		t.Errorf("the registry is asked %d times more for a version that is there", now-asked)
	}
	s.write("servers/t/ctl", "stop\nset image npx://@test/none@1.0.0\n")
	s.cannotStart("t", "@test/none has no program")
	for _, c := range []struct{ set, want string }{
		{`secrets '["nosuch,target=TOKEN"]'`, "variable TOKEN: "},
		{"volumes '[\"/nosuch:/data\"]'", "mount /nosuch: no such file or directory: make that folder first"},
		{"volumes '[\"" + t.TempDir() + ":/usr\"]'", "mount at /usr: the guest sees /usr of this machine there"},
	} {
		s.write("servers/t/ctl", "set image npx://@test/none@1.0.0\nset "+c.set+"\n")
		asked = npm().took("@test/none")
		s.cannotStart("t", c.want)
		if now := npm().took("@test/none"); now != asked {
			t.Errorf("%s is found after the install", c.want)
		}
		s.write("servers/t/ctl", "set secrets\nset volumes\n")
	}
	s.write("servers/t/ctl", "set image npx://broken\n")
	s.cannotStart("t", "to do: nothing: while a package is installed it has its registry's hosts only / the part is not there / npm error path /workspace/.hutch/npx/lib/node_modules/broken (exit status 1); denied parts.example.com:80 while the package was installed")
	s.write("servers/t/ctl", "set image npx://no-such-package\n")
	if err := s.tryWrite("servers/t/ctl", "start\n"); err == nil || !strings.Contains(s.read("servers/t/err"), "npm package no-such-package@latest") {
		t.Errorf("a package that is not there: %v, %s", err, s.read("servers/t/err"))
	}
}

// cannotStart has a server fail to start, for a reason.
func (s *service) cannotStart(name, why string) {
	s.t.Helper()
	err := s.tryWrite("servers/"+name+"/ctl", "start\n")
	if text := s.read("servers/" + name + "/err"); err == nil || !strings.Contains(text, why) {
		s.t.Errorf("a start that is to fail for %q: %v, %s", why, err, text)
	}
}

// deniedTo has the server ask for what it may not reach, and does in a shell what its
// log says then.
func (s *service) deniedTo(url string) {
	s.t.Helper()
	if out, _ := s.sh("server-t", "curl -sS -m 20 -o /dev/null -w '%{http_code}' "+url); out != "403" {
		s.t.Errorf("the registry answers %s", out)
	}
	if out, _ := s.sh("server-t", "curl -sS -m 20 "+url); !strings.Contains(out, "hutch: the profile of server t does not allow ") || !strings.Contains(out, "to do: see the log of server t") {
		s.t.Errorf("the server is told %s", out)
	}
	_, host, _ := strings.Cut(url, "//")
	var line string
	poll(s.t, "the line", func() bool {
		_, after, found := strings.Cut(s.read("servers/t/log/server"), "t: denied "+host+": ")
		line, _, _ = strings.Cut(after, "\n")
		return found
	})
	sh := exec.Command("sh", "-c", line)
	sh.Dir = s.mount
	if out, err := sh.CombinedOutput(); err != nil {
		s.t.Errorf("%s: %v: %s", line, err, out)
	}
	if text := s.read("servers/t/config"); !strings.Contains(text, host) {
		s.t.Errorf("after %s the config is %s", line, text)
	}
	if text := s.teller(); !strings.Contains(text, "1.1.0 has ") {
		s.t.Errorf("it tells %s", text)
	}
}
