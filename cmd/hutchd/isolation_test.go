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
)

// secret is in files of the host that no VM may have.
const secret = "hutch-test-secret"

// TestIsolation tries to get out of a sandbox, from inside it.
func TestIsolation(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	s.vm("other")
	s.write("vm/other/work/mine", secret)
	file := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(file, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	socket, err := net.Listen("unix", filepath.Join(s.dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, l := range []net.Listener{host, socket} {
		go func() {
			if c, err := l.Accept(); err == nil {
				t.Errorf("someone came to %v", l.Addr())
				c.Close()
			}
		}()
	}
	dial := `python3 -c 'import socket,sys; a=sys.argv[1:]; s=socket.socket(socket.AF_UNIX if len(a)==1 else socket.AF_INET); s.settimeout(5); s.connect(a[0] if len(a)==1 else (a[0],int(a[1]))); print("connected")' `
	if out, status := s.sh("dev", dial+"/run/hutch/5002"); status == "127" {
		t.Log("no python3: nothing is dialled")
	} else if out != "connected\n" {
		t.Errorf("own port: %s %s", out, status)
	}
	port := fmt.Sprint(host.Addr().(*net.TCPAddr).Port)
	for _, line := range []string{
		// files of the host
		"cat " + file, "cat /etc/shadow", "ls " + s.dir, "ls " + s.mount, "cat /proc/1/root" + file, "cat /proc/self/root" + file,
		"cat /workspace/../../../.." + file, "cat /workspace/../../other/work/mine", "ls /var/lib/hutch /home/* /root/.ssh /mnt/hutch",
		"ln -s " + file + " /workspace/out && cat /workspace/out", "ln " + file + " /workspace/hard",
		"ln -s " + s.dir + " /workspace/up && ls /workspace/up/",
		// devices, mounts, the image
		"mknod /workspace/disk b 8 0 && head -c1 /workspace/disk", "mknod /tmp/mem c 1 1 && head -c1 /tmp/mem", "cat /dev/mem", "ls /dev/kvm", "cat /dev/sda", "ls /dev/fuse && head -c1 /dev/fuse",
		"mount --bind / /mnt && cat /mnt" + file, "echo x >/usr/bin/hutch-test", "echo x >>/bin/sh", "rm /usr/bin/env", "mount -o remount,rw /usr",
		"echo x >/opt/hutch/bin/hutch-relay", "echo x >/proc/sysrq-trigger", "echo 1 >/proc/sys/kernel/core_pattern && cat " + file,
		// processes of others
		"kill -0 $(( $$ + 1000000 ))", `python3 -c 'import ctypes;l=ctypes.CDLL(None);exit(l.ptrace(16,` + fmt.Sprint(s.cmd.Process.Pid) + `,0,0)!=0)'`,
		"ls /proc/" + fmt.Sprint(s.cmd.Process.Pid) + "/exe",
		// the network
		dial + "1.1.1.1 53", dial + "127.0.0.1 " + port, dial + "8.8.8.8 443", dial + "169.254.169.254 80", "getent hosts example.com",
		"python3 -c 'import socket;socket.getaddrinfo(\"example.com\",80)'",
		// sockets of hutchd and of others
		dial + filepath.Join(s.dir, "9p"), dial + filepath.Join(s.dir, "socket"), dial + "/run/hutch/9p", dial + "/run/hutch/5001",
		"ln -s " + filepath.Join(s.dir, "socket") + " /workspace/sock && " + dial + "/workspace/sock",
		"ln -s " + s.state() + "/vm/other/ports/5002 /workspace/port && " + dial + "/workspace/port",
		"rm -f /run/hutch/5002 && test ! -e /run/hutch/5002", "echo x >/run/hutch/new", "mv /run/hutch/5002 /run/hutch/5003",
	} {
		out, status := s.sh("dev", line)
		if status == "0" || strings.Contains(out, secret) || strings.Contains(out, "connected") {
			t.Errorf("%s: status %s, %q", line, status, out)
		}
	}
	for line, want := range map[string]string{
		"ls /run/hutch":                                                   "5000\n5002\n",
		"cd /sys/class/net && echo *":                                     "", // at most the loopback
		"cat /proc/net/route | grep -vc Iface":                            "0\n",
		"cat /etc/shadow 2>/dev/null":                                     "",
		"find / -xdev -name secret 2>/dev/null":                           "",
		"tr '\\0' '\\n' </proc/1/environ | grep -c -e HUTCH_ -e " + s.dir: "0\n",
	} {
		if out, _ := s.sh("dev", line); out != want && !(want == "" && (strings.TrimSpace(out) == "lo" || strings.TrimSpace(out) == "*" || strings.Contains(out, "can't cd"))) {
			t.Errorf("%s: %q, want %q", line, out, want)
		}
	}
}

// TestLinksInWork puts links to the host into a workspace, from inside and
// from outside: no way to read the workspace follows them.
func TestLinksInWork(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	file := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(file, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	s.sh("dev", "cd /workspace; ln -s "+file+" in; ln -s "+s.dir+" dir; ln -s ../../../secret up; mkfifo pipe; python3 -c 'import socket;socket.socket(socket.AF_UNIX).bind(\"sock\")'; mknod null c 1 3")
	work := filepath.Join(s.state(), "vm", "dev", "work")
	if err := os.Symlink("/etc/shadow", filepath.Join(work, "shadow")); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := unix.Mknod(filepath.Join(work, "node"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Log(err)
		}
	}
	for _, name := range []string{"in", "dir/secret", "up", "shadow", "pipe", "sock", "null", "node"} {
		if f, err := s.client().Open("vm/dev/work/"+name, os.O_RDONLY); err == nil {
			p := make([]byte, 100)
			n, err := f.ReadAt(p, 0)
			t.Errorf("%s over 9P: opened, read %q, %v", name, p[:n], err)
			f.Close()
		}
		if f, err := s.client().Open("vm/dev/work/"+name, os.O_WRONLY); err == nil {
			t.Errorf("%s over 9P: opened for writing", name)
			f.Close()
		}
		if text := s.call("dev", "file_read", `{"path":"`+name+`"}`); !strings.Contains(text, `"isError":true`) || strings.Contains(text, secret) {
			t.Errorf("%s by file_read: %s", name, text)
		}
		s.call("dev", "file_write", `{"path":"`+name+`","content":"x"}`) // makes a file of its own in the link's place, at most
	}
	if text, _ := os.ReadFile(file); string(text) != secret {
		t.Errorf("the host's file is %q", text)
	}
	if out, _ := s.sh("dev", "cat /workspace/in /workspace/up /workspace/dir/secret /workspace/shadow"); strings.Contains(out, secret) || strings.Contains(out, "root:") {
		t.Errorf("inside the links give %q", out)
	}
}
