//go:build linux

package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hutch/fs/need"
	"hutch/vmm/image/imagetest"
)

// TestListening has a server of servers/ be asked over HTTP at its port, be killed, and
// be there again.
func TestListening(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.mkdir("servers/all")
	for transport, mode := range map[string]string{"streamable-http": "streamableHttp", "sse": "sse"} {
		s.everythingOver(transport, mode, "8088")
		s.write("servers/all/ctl", "start\n")
		s.sumBy("all")
		wantText(t, s.read("servers/all/status"), "running\n", "\ntransport "+transport+"\n")
		s.write("vm/server-all/ctl", "kill\n") // which the next call mends
		s.sumBy("all")
		s.write("servers/all/ctl", "stop\n")
		wantText(t, s.read("servers/all/status"), "stopped\n")
	}
}

// TestListeningElsewhere has a server listen at another port than is said: it is
// starting, and can be stopped.
func TestListeningElsewhere(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.mkdir("servers/all")
	s.everythingOver("streamable-http", "streamableHttp", "8089")
	started := make(chan error, 1)
	go func() { started <- s.tryWrite("servers/all/ctl", "start\n") }()
	poll(t, "the program to listen", func() bool { return strings.Contains(s.read("servers/all/log/server"), "8089") })
	wantText(t, s.read("servers/all/status"), "starting\n")
	s.write("servers/all/ctl", "stop\n")
	if err := <-started; err == nil {
		t.Error("it is started")
	}
	wantText(t, s.read("servers/all/status"), "stopped\n")
}

// everythingOver has the server all be the reference's test server over HTTP, which
// listens at port, and is looked for at 8088.
func (s *service) everythingOver(transport, mode, port string) {
	s.t.Helper()
	need.Everything(s.t)
	s.write("servers/all/config", fmt.Sprintf(`{"image":"npx://@modelcontextprotocol/server-everything","transport":%q,"target_port":8088,`+
		`"cmd_args":[%q],"env_vars":{"PORT":%q}}`, transport, mode, port))
}

// serveImages returns a registry with images of a server: serve:1, which runs it, and
// serve:2 with another user, folder and words.
func serveImages(t testing.TB) (registry string) {
	t.Helper()
	program, err := os.ReadFile(testProgram(t, "serve"))
	if err != nil {
		t.Fatal(err)
	}
	img := imagetest.Image(t, imagetest.Tar(imagetest.Program("hello", string(program)), imagetest.Dir("srv", 0o755),
		imagetest.File("etc/passwd", "root:x:0:0::/:/\napp:x:77:78::/srv:/\n"), imagetest.File("etc/group", "app:x:78:\nothers:x:79:\n")))
	registry = imagetest.Registry(t)
	imagetest.Push(t, registry+"/serve:1", img)
	imagetest.Push(t, registry+"/serve:2", imagetest.With(t, img, func(c *v1.ConfigFile) {
		c.Config.User, c.Config.WorkingDir, c.Config.Cmd = "app:others", "", nil
		c.Config.Env = append(c.Config.Env, "HOME=/home/of/image")
	}))
	imagetest.Push(t, registry+"/nothing:1", imagetest.With(t, img, func(c *v1.ConfigFile) { c.Config.Entrypoint, c.Config.Cmd = nil, nil }))
	return registry
}

// imageServer makes a server of servers/ that is an image, and starts it.
func (s *service) imageServer(name string) {
	s.t.Helper()
	s.mkdir("servers/" + name)
	s.write("servers/"+name+"/ctl", "run "+serveImages(s.t)+"/serve:1\n")
}

// where has a server of the images tell where it runs.
func (s *service) where(server string) string {
	s.t.Helper()
	return s.use("servers/"+server+"/tools/where", `{}`)
}

// TestImageServer has servers be images: pulled, run as those say, over stdio and HTTP.
func TestImageServer(t *testing.T) {
	t.Parallel()
	registry := serveImages(t)
	s := serve(t, false)
	s.mkdir("servers/one")
	s.write("servers/one/ctl", "run "+registry+"/serve:1\n")
	wantText(t, s.where("one"), `/srv 77:78 /srv of the image [\"/hello\" \"-v\" \"two words\"]`)
	wantText(t, s.read("servers/one/status"), "\nsource "+registry+"/serve:1\n", "\nimage serve-1\ndigest sha256:", "\nsignature unverified\n")
	wantText(t, s.read("servers/one/log/server"), "one: pulling "+registry+"/serve:1", "one: pulled ")
	wantText(t, s.read("vm/server-one/config"), "image serve-1\n")

	s.write("servers/one/ctl", "stop\nset transport streamable-http\nset target_port 9001\nset env_vars.COLOUR red\n")
	s.write("servers/one/ctl", "set cmd_args '[\"x\", \"y\"]'\nstart\n")
	wantText(t, s.where("one"), `/srv 77:78 /srv red [\"/hello\" \"x\" \"y\"]`)
	wantText(t, s.read("servers/one/status"), "running\n", "\ntransport streamable-http\n")
	if names := s.names("images"); names != "host serve-1" {
		t.Errorf("the images are %s", names)
	}
	s.write("servers/one/ctl", "stop\n")
	s.write("vm/server-one/work/left", "x")
	s.write("servers/one/ctl", "run "+registry+"/serve:2\n")
	if s.names("vm/server-one/work") != "" {
		t.Error("the sandbox has what was written over another image")
	}
	wantText(t, s.where("one"), `/ 77:79 /home/of/image red [\"/hello\"]`)
}

// TestImageServerQEMU has the sandbox of a server be a virtual machine.
func TestImageServerQEMU(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	registry := serveImages(t)
	s := serveQEMU(t)
	s.mkdir("servers/one")
	s.write("servers/one/ctl", "run "+registry+"/serve:1\nstop\n")
	s.write("vm/server-one/ctl", "set driver qemu\n")
	s.write("servers/one/ctl", "set transport streamable-http\nset target_port 9001\nset env_vars.COLOUR red\nstart\n")
	wantText(t, s.where("one"), `/srv 77:78 /srv red [\"/hello\" \"-v\" \"two words\"]`)
	wantText(t, s.read("vm/server-one/status"), "driver qemu\n")
}

// TestImageServerFails has servers be images that cannot be had or run: the reason is
// told.
func TestImageServerFails(t *testing.T) {
	t.Parallel()
	registry := serveImages(t)
	s := serve(t, false)
	s.mkdir("servers/one")
	for _, c := range []struct{ messages, want string }{
		{"run " + registry + "/nosuch:1", "the registry has no such image"},
		{"run 127.0.0.1:1/x:1", "connection refused"},
		{"run " + registry + "/nothing:1", "image nothing-1 does not say what is run in it"},
		{"run " + registry + "/serve:1 crash", "(exit status 3): no settings in /etc/serve"},
		{"set transport streamable-http\nstart", "it ended before it listened at port 8080 (exit status 3): no settings in /etc/serve"},
	} {
		if err := s.tryWrite("servers/one/ctl", c.messages+"\n"); err == nil {
			t.Errorf("%s: done", c.messages)
		}
		wantText(t, s.read("servers/one/status"), "error\n", c.want)
	}
}

// TestImageOfProfile has the server of a profile be an image.
func TestImageOfProfile(t *testing.T) {
	t.Parallel()
	registry := serveImages(t)
	s := serve(t, false)
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.one]\nimage = %q\n[mcpServers.two]\nimage = %[1]q\ncommand = \"/hello\"\nargs = [\"z\"]\n", registry+"/serve:1"))
	s.vm("dev")
	for server, want := range map[string]string{"one": `/srv 77:78 /srv of the image [\"/hello\" \"-v\" \"two words\"]`, "two": `/srv 77:78 /srv of the image [\"/hello\" \"z\"]`} {
		s.tool("dev", server+"__where")
		wantText(t, s.call("dev", server+"__where", `{}`), want)
	}
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
}
