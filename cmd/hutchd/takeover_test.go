//go:build linux

package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// TestTakeoverSocket has guests be shown the socket of the service, with which they would be
// root here, in every way that there is: none gets it.
func TestTakeoverSocket(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	top := filepath.Join(s.dir, "top")
	for _, name := range []string{"run/deep", "shown", "cover"} {
		os.MkdirAll(filepath.Join(top, name), 0o755)
	}
	s.addr = "unix!" + filepath.Join(top, "run", "9p")
	s.start()
	os.Symlink("run", filepath.Join(top, "link"))
	ways := []string{"run", "", "link"}
	bind := func(from, to string) bool {
		from, to = filepath.Join(top, from), filepath.Join(top, to)
		err := unix.Mount(from, to, "", unix.MS_BIND, "")
		if err == nil {
			t.Cleanup(func() { unix.Unmount(to, unix.MNT_DETACH) })
		}
		return err == nil
	}
	s.vm("runs") // by a connection that stays when the socket is covered
	if bind("run", "shown") {
		ways = append(ways, "shown")
	}
	for _, way := range ways {
		for _, options := range []string{"", ":ro", ":sockets", ":ro,sockets"} {
			s.noMount(filepath.Join(top, way)+":/x"+options, "no guest may have the ")
		}
	}
	s.noMount("/proc:/x:ro", "no guest may have the process of hutchd")
	// A pack that names it.
	s.mkdir("vm/packed")
	s.write("vm/packed/config", "mount "+filepath.Join(top, "run")+":/x\n")
	if out, err := s.command("hutch", "unpack", "-yes", s.packed("packed"), "taken").CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}
	if err := s.tryWrite("vm/taken/ctl", "start\n"); err == nil {
		t.Error("a pack has the socket")
	}
	wantText(t, s.read("vm/taken/err"), "no guest may have the socket of hutchd")
	// A server with permissions.
	s.write("profiles/boxed.toml", fmt.Sprintf("[mcpServers.s]\ncommand = \"/bin/cat\"\nread = [%q]\n", filepath.Join(top, "run")+":/x"))
	s.mkdir("vm/boxed")
	s.write("vm/boxed/config", "profile boxed\n")
	s.write("vm/boxed/ctl", "start\n")
	poll(t, "the server to be refused", func() bool {
		return strings.Contains(s.read("vm/boxed/mcp/servers"), "no guest may have the socket of hutchd")
	})
	// Covered, it is still there in a bind mount of before.
	if len(ways) > 3 && bind("cover", "run") {
		if err := s.tryWrite("vm/packed/config", "mount "+filepath.Join(top, "shown")+":/x\n"); err != nil {
			t.Fatal(err)
		}
		if err := s.tryWrite("vm/packed/ctl", "start\n"); err == nil {
			t.Error("a bind mount has the socket")
		}
		wantText(t, s.read("vm/packed/err"), "no guest may have the socket of hutchd")
		unix.Unmount(filepath.Join(top, "run"), unix.MNT_DETACH)
	}
	// An image of what is the service's.
	s.mkdir("images/taken")
	if err := s.tryWrite("images/taken/ctl", "import "+s.state()+"/vm\n"); err == nil {
		t.Error("an image was made of the state")
	}
}

// noMount has a mount be refused for a reason.
func (s *service) noMount(mount, why string) {
	s.t.Helper()
	out, err := s.command("hutch", "run", "-v", mount, "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "operation not permitted: mount ") || !strings.Contains(string(out), why) {
		s.t.Errorf("%s: %v: %s", mount, err, out)
	}
}

// TestMountSockets has a guest connect to a socket of the host: where its mount says so,
// and corp does not forbid it.
func TestMountSockets(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	need.Tool(t, "perl")
	dir := filepath.Join(s.dir, "plain")
	os.Mkdir(dir, 0o755)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("in\n"))
			c.Close()
		}
	}()
	const connect = `socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un("/x/s")) ? print <S> : print "refused\n"`
	for options, want := range map[string]string{"": "refused\n", ":ro": "refused\n", ":sockets": "in\n", ":ro:sockets": "in\n"} {
		out, err := s.command("hutch", "run", "-v", dir+":/x"+options, "perl", "-MSocket", "-e", connect).Output()
		if err != nil || string(out) != want {
			t.Errorf("%q: %v: %q", options, err, out)
		}
	}
	// One folder at two places is one folder.
	out, err := s.command("hutch", "run", "-v", dir+":/x", "-v", dir+":/y:ro", "sh", "-c", "echo text >/x/f; cat /y/f; echo no >/y/f || echo refused").Output()
	if err != nil || string(out) != "text\nrefused\n" {
		t.Errorf("at two places: %v: %q", err, out)
	}
	// What was closed stays so in a copy, and after a suspend.
	s.mkdir("vm/dev")
	s.write("vm/dev/config", "mount "+dir+":/x\n")
	s.write("vm/dev/ctl", "start\n")
	s.write("vm/dev/ctl", "suspend\n")
	s.write("vm/dev/ctl", "resume\n")
	s.write("vm/dev/ctl", "fork -live two\n")
	for _, vm := range []string{"dev", "two"} {
		if out, err := s.command("hutch", "exec", vm, "perl", "-MSocket", "-e", connect).Output(); err != nil || string(out) != "refused\n" {
			t.Errorf("%s: %v: %q", vm, err, out)
		}
	}
}
