package hostmcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// TestDialAgain has a service end between its taking a connection and its answer.
func TestDialAgain(t *testing.T) {
	s := newSite(t)
	addr := filepath.Join(filepath.Dir(strings.TrimPrefix(s.addr, "unix!")), "ending")
	l, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
		ours, err := l.Accept()
		if err != nil {
			return
		}
		theirs, err := net.Dial("unix", strings.TrimPrefix(s.addr, "unix!"))
		if err == nil {
			go io.Copy(theirs, ours)
			io.Copy(ours, theirs)
			theirs.Close()
		}
		ours.Close()
	}()
	c, err := newService(Config{Address: "unix!" + addr, Log: io.Discard}).dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.close()
}

// TestStart has several servers at once find no service: one starts it, and
// all use it. It stays when they end, and is started again when it was killed, by
// the one that had started it: to the others it is somebody's, with a state of its own.
func TestStart(t *testing.T) {
	bin := need.Programs(t)
	dir, err := os.MkdirTemp("", "hutch-mcp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	need.Sweep(t, dir)
	s := &site{t: t, addr: "unix!" + filepath.Join(dir, "run", "9p")}
	config := Config{Program: filepath.Join(bin, "hutchd"), Args: []string{"-state", filepath.Join(dir, "state"), "-mount", "none"}}
	t.Cleanup(func() { endService(t, s.addr) })
	call := func(w *rawPeer, id int) {
		w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hutch_version"}}`, id)
		w.line(`"connected":true`)
	}
	var logs [4]bytes.Buffer
	started := make(chan int, len(logs))
	var ended sync.WaitGroup
	var all []*rawPeer
	for i := range logs {
		w, end := s.program(config, writes(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte("started hutchd")) { // it may also tell of one that was lost
				started <- i
			}
			return logs[i].Write(p)
		}))
		all = append(all, w)
		ended.Go(end)
	}
	var calls sync.WaitGroup
	for _, w := range all {
		calls.Go(func() { call(w, 1) })
	}
	calls.Wait()
	first := holder(t, dir)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for nobodyServes(t, s.addr) == nil { // the kernel takes a moment to end it
	}
	who := <-started
	other := all[(who+1)%len(all)]
	other.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hutch_list"}}`)
	other.line("has ended, and hutch mcp had not started it")
	call(all[who], 2)
	call(other, 3)
	if second := holder(t, dir); second == first {
		t.Error("the service was not started again")
	}
	for _, w := range all {
		w.in.Close()
	}
	ended.Wait()
	if err := nobodyServes(t, s.addr); err != nil {
		t.Errorf("the service went with them: %v", err)
	}
	told := ""
	for i := range logs {
		told += logs[i].String()
	}
	if want := "; its log is " + filepath.Join(dir, "state", "log", "service"); strings.Count(told, want) != 2 {
		t.Errorf("told %s", told)
	}
}

// writes is a writer that is a function.
type writes func(p []byte) (int, error)

func (w writes) Write(p []byte) (int, error) { return w(p) }

// program starts a server with a log, whose end is waited for by end.
func (s *site) program(c Config, log io.Writer) (w *rawPeer, end func()) {
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	c.Address, c.Log, c.Prefix = s.addr, log, "hutch_"
	return &rawPeer{s.t, in, bufio.NewReader(out)}, func() {
		if err := Serve(context.Background(), c, fromClient, toClient); err != nil {
			s.t.Errorf("serve: %v", err)
		}
	}
}

// holder returns the process that has the state folder.
func holder(t *testing.T, dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "state", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// nobodyServes returns the error of who connects.
func nobodyServes(t *testing.T, addr string) error {
	tree, err := dial(t.Context(), addr)
	if err == nil {
		tree.close()
	}
	return err
}

// endService ends the service that the test started.
func endService(t *testing.T, addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tree, err := dial(ctx, addr)
	if err == nil {
		err = tree.tell(ctx, "ctl", "shutdown")
		<-tree.c.Down()
		tree.close()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestNoStart has no hutchd to start, or one that does not serve.
func TestNoStart(t *testing.T) {
	dir := t.TempDir()
	sh := filepath.Join(dir, "sh")
	for text, want := range map[string]string{
		"":                              "and none can be started: ",
		"echo cannot >&2; exit 1":       "hutchd ended (exit status 1): cannot",
		"echo nonsense; exec true":      "hutchd ended (<nil>): ",
		"echo ready or not; kill -9 $$": "no such file or directory",
	} {
		os.Remove(sh)
		if text != "" {
			if err := os.WriteFile(sh, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s := newService(Config{Address: "unix!" + filepath.Join(dir, "9p"), Program: sh, Log: io.Discard})
		if _, err := s.dial(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	s := newService(Config{Address: "tcp!127.0.0.1!1", Program: sh, Log: io.Discard})
	if _, err := s.dial(t.Context()); err == nil || !strings.Contains(err.Error(), "at unix sockets only") {
		t.Error(err)
	}
	hangs := newService(Config{Address: "unix!" + filepath.Join(dir, "9p"), Program: sh, Log: io.Discard})
	ctx, cancel := context.WithCancel(t.Context())
	<-hangs.turn // somebody starts one
	cancel()
	if err := hangs.start(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
