//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// peer is a program for a VM that serves ports of its loopback, which it prints:
// one echoes and says bye at the end, one sends for ever, one takes nothing and
// sends nothing.
const peer = `
use IO::Socket::INET; $| = 1; $SIG{CHLD} = "IGNORE";
for $i (0..2) {
	$l = IO::Socket::INET->new(Listen=>400, LocalAddr=>"127.0.0.1") or die;
	print $l->sockport, $i < 2 ? " " : "\n";
	next if fork;
	while ($c = $l->accept) {
		if ($i == 2) { push @kept, $c; next }
		if (!fork) {
			if ($i == 1) { 1 while syswrite($c, "x" x 65536); exit }
			while (sysread($c, $b, 65536)) { syswrite($c, $b) }
			syswrite($c, "bye"); exit
		}
		close $c;
	}
}
sleep 1 while 1`

// peers starts that program in a VM and returns its ports.
func (s *service) peers(vm string) (echo, flood, deaf string) {
	s.t.Helper()
	need.Tool(s.t, "perl")
	s.write("vm/"+vm+"/work/peer", peer)
	s.mkdir("vm/" + vm + "/exec/peer")
	s.write("vm/"+vm+"/exec/peer/ctl", "exec perl /workspace/peer\n")
	out := s.open("vm/"+vm+"/exec/peer/stdout", os.O_RDONLY)
	defer out.Close()
	line, _ := bufio.NewReader(out).ReadString('\n')
	if n, err := fmt.Sscan(line, &echo, &flood, &deaf); n != 3 {
		s.t.Fatalf("peer: %q, %v: %s", line, err, s.read("vm/"+vm+"/exec/peer/wait"))
	}
	return echo, flood, deaf
}

// forward runs hutch forward, and returns where it listens.
func (s *service) forward(vm string, mappings ...string) (cmd *exec.Cmd, addrs []string, complaint *bytes.Buffer) {
	s.t.Helper()
	cmd = s.command("hutch", append([]string{"forward", vm}, mappings...)...)
	complaint = &bytes.Buffer{}
	cmd.Stderr = complaint
	printed := printing(s.t, cmd)
	printed.await("a line each", func() bool { return strings.Count(printed.printed, "\n") == len(mappings) })
	for line := range strings.Lines(printed.printed) {
		addr, _, _ := strings.Cut(line, " ")
		addrs = append(addrs, addr)
	}
	return cmd, addrs, complaint
}

// echoed sends text over a connection, ends that, and returns what comes back.
func echoed(addr, text string) (string, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	go func() {
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	return string(got), err
}

// TestForward has ports of the host lead to servers in a VM.
func TestForward(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	echo, flood, deaf := s.peers("dev")
	cmd, addrs, complaint := s.forward("dev", "0:"+echo, "0:"+flood, "0:"+deaf, "127.0.0.2:0:1")
	// Those who flood, and those who take nothing, cost nobody else anything.
	for _, addr := range addrs[1:3] {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go io.WriteString(c, strings.Repeat("y", 8<<20))
	}
	text := strings.Repeat("it is long. ", 300_000)
	if got, err := echoed(addrs[0], text); err != nil || got != text+"bye" {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			if got, err := echoed(addrs[0], fmt.Sprint(i)); err != nil || got != fmt.Sprintf("%dbye", i) {
				t.Errorf("connection %d: %q, %v", i, got, err)
			}
		})
	}
	all.Wait()
	for range 3 {
		if got, _ := echoed(addrs[3], "hello"); got != "" {
			t.Errorf("nobody said %q", got)
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if want := "hutch: connection refused: 127.0.0.1!1\n"; complaint.String() != want || ended(cmd) != "130" {
		t.Errorf("ended %s, said %q, want %q", ended(cmd), complaint, want)
	}
	poll(t, "end of the connections", func() bool {
		list, err := s.client().ReadDir("vm/dev/net/tcp")
		return err == nil && len(list) == 1
	})
}

// resetter is a program for a VM that reads a byte of all who connect, and resets them.
const resetter = `
use IO::Socket::INET; use Socket; $| = 1;
$l = IO::Socket::INET->new(Listen=>10, LocalAddr=>"127.0.0.1") or die;
print $l->sockport, "\n";
while ($c = $l->accept) { sysread($c, $x, 1); setsockopt($c, SOL_SOCKET, SO_LINGER, pack("ii", 1, 0)); close $c }`

// TestForwardReset has a server in a VM reset a connection: its client sees that, and
// no end like any other.
func TestForwardReset(t *testing.T) {
	t.Parallel()
	need.Tool(t, "perl")
	s := serve(t, false)
	s.vm("dev")
	s.write("vm/dev/work/resetter", resetter)
	s.mkdir("vm/dev/exec/resetter")
	s.write("vm/dev/exec/resetter/ctl", "exec perl /workspace/resetter\n")
	out := s.open("vm/dev/exec/resetter/stdout", os.O_RDONLY)
	defer out.Close()
	said := bufio.NewScanner(out)
	said.Scan()
	_, addrs, _ := s.forward("dev", "0:"+said.Text())
	c, err := net.Dial("tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "x")
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v", err)
	}
}

// hoarder is a program for a VM that sends to all who connect, as much as goes out.
// After each it prints a line, once nothing more did.
const hoarder = `
use IO::Socket::INET; $| = 1; $SIG{PIPE} = "IGNORE"; $x = "x" x 65536;
$l = IO::Socket::INET->new(Listen=>400, LocalAddr=>"127.0.0.1") or die;
print $l->sockport, "\n";
while ($c = $l->accept) {
	$c->blocking(0); push @kept, $c;
	for (1..3) { for $k (@kept) { 1 while syswrite($k, $x) } select undef, undef, undef, 0.01 }
	print "full\n";
}`

// TestForwardHeld has 200 connections whose readers do not read: a VM of sane
// memory holds what has come.
func TestForwardHeld(t *testing.T) {
	t.Parallel()
	need.Tool(t, "perl")
	s := serve(t, false)
	s.limited("dev", "ram 512MiB")
	s.write("vm/dev/work/hoarder", hoarder)
	s.mkdir("vm/dev/exec/hoarder")
	s.write("vm/dev/exec/hoarder/ctl", "exec perl /workspace/hoarder\n")
	out := s.open("vm/dev/exec/hoarder/stdout", os.O_RDONLY)
	defer out.Close()
	said := bufio.NewScanner(out)
	said.Scan()
	_, addrs, _ := s.forward("dev", "0:"+said.Text())
	for i := range 200 {
		c, err := net.Dial("tcp", addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(4096)
		if !said.Scan() {
			t.Fatalf("%d connections: %s", i, s.read("vm/dev/status"))
		}
	}
	var used float64
	status := s.read("vm/dev/status")
	if !strings.Contains(status, "MiB by cgroup\n") {
		need.Missing(t, "no control groups: "+status)
	}
	_, ram, _ := strings.Cut(status, "\nram ")
	if _, err := fmt.Sscanf(ram, "%fMiB", &used); err != nil || used > 384 {
		t.Errorf("200 connections hold %.0f MiB, %v: %s", used, err, status)
	}
}

// TestForwardEnds suspends a VM, stops it and kills its service under connections.
func TestForwardEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	echo, _, _ := s.peers("dev")
	cmd, addrs, complaint := s.forward("dev", "0:"+echo)
	open := func() net.Conn {
		c, err := net.Dial("tcp", addrs[0])
		if err == nil {
			_, err = io.WriteString(c, "x")
		}
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open()
	s.write("vm/dev/ctl", "suspend\n")
	if n, _ := io.Copy(io.Discard, c); n > 0 {
		t.Errorf("%d bytes of a suspended VM", n)
	}
	s.write("vm/dev/ctl", "resume\n")
	if got, err := echoed(addrs[0], "on"); got != "onbye" {
		t.Errorf("after resume: %q, %v", got, err)
	}
	c = open()
	s.signal(syscall.SIGKILL)
	if n, _ := io.Copy(io.Discard, c); n > 0 {
		t.Errorf("%d bytes of nobody", n)
	}
	cmd.Wait()
	if ended(cmd) != "125" || !strings.Contains(complaint.String(), "connection to hutchd lost") {
		t.Errorf("ended %s: %s", ended(cmd), complaint)
	}
	s.start()
	if list, err := s.client().ReadDir("vm/dev/net/tcp"); err != nil || len(list) != 1 {
		t.Errorf("the next service has %v, %v", list, err)
	}
	_, addrs, _ = s.forward("dev", "0:"+echo)
	if got, err := echoed(addrs[0], "on"); got != "onbye" {
		t.Errorf("with the next service: %q, %v", got, err)
	}
}
