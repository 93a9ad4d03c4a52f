//go:build linux

package main_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// A stream is a file that blocks, with a way to make something come out.
type stream struct {
	name  string
	wake  func(mark string)
	marks func(mark string) string // what comes out of wake
	again bool                     // every reader gets all of it
}

// streams makes a VM and commands in it.
func streams(s *service) []stream {
	s.vm("dev")
	s.mkdir("vm/off")
	for name, line := range map[string]string{"out": "cat", "err": "cat >&2"} {
		s.mkdir("vm/dev/exec/" + name)
		s.write("vm/dev/exec/"+name+"/ctl", "sh "+line+"\n")
	}
	in := map[string]func(string){}
	for _, name := range []string{"exec/out/stdin", "exec/err/stdin", "cons"} {
		f := s.open("vm/dev/"+name, os.O_WRONLY)
		s.t.Cleanup(func() { f.Close() })
		in[name] = func(text string) {
			s.t.Helper()
			if _, err := f.WriteAt([]byte(text), 0); err != nil {
				s.t.Fatalf("%v (%s)", err, s.why())
			}
		}
	}
	itself := func(mark string) string { return mark + "\n" }
	made := func(mark string) {
		s.mkdir("vm/" + mark)
		if err := s.client().Remove("vm/" + mark); err != nil {
			s.t.Fatal(err)
		}
	}
	return []stream{
		{"events", made, func(mark string) string { return `"vm":"` + mark + `","event":"made"` }, true},
		{"log/follow", made, func(mark string) string { return "msg=made vm=" + mark }, true},
		{"vm/off/events", func(string) { s.write("vm/off/ctl", "start\nkill\n") }, func(string) string { return s.lastLine("vm/off/events") }, true},
		{"vm/dev/exec/out/stdout", func(mark string) { in["exec/out/stdin"](mark + "\n") }, itself, true},
		{"vm/dev/exec/err/stderr", func(mark string) { in["exec/err/stdin"](mark + "\n") }, itself, true},
		{"vm/dev/cons", func(mark string) { in["cons"]("echo ma''" + mark[2:] + "\n") }, func(mark string) string { return mark + "\r\n" }, false},
		{"vm/dev/mcp/calls", func(mark string) { s.call("dev", "local__echo", `{"text":"`+mark+`"}`) },
			func(mark string) string { return `\"arguments\":{\"text\":\"` + mark + `\"}}` }, true},
	}
}

// lastLine returns the last line of a stream as it is now, if it has any.
func (s *service) lastLine(name string) string {
	s.t.Helper()
	f := s.open(name, os.O_RDONLY|syscall.O_NONBLOCK)
	defer f.Close()
	all, err := io.ReadAll(f)
	if !errors.Is(err, syscall.EAGAIN) {
		s.t.Fatalf("%s: the end is %v", name, err)
	}
	lines := strings.SplitAfter(string(all), "\n")
	if len(lines) < 2 {
		return ""
	}
	return lines[len(lines)-2]
}

// tool waits until a VM has a tool: its servers tell of theirs when they have
// been started, and it runs without them.
func (s *service) tool(vm, name string) {
	s.t.Helper()
	poll(s.t, "tool "+name, func() bool {
		_, err := s.client().Stat("vm/" + vm + "/mcp/tools/" + name)
		return err == nil
	})
}

// call calls a tool through the tree.
func (s *service) call(vm, tool, args string) string {
	s.t.Helper()
	s.tool(vm, tool)
	return s.use("vm/"+vm+"/mcp/tools/"+tool, args)
}

// use calls the tool of a directory.
func (s *service) use(tool, args string) string {
	s.t.Helper()
	f := s.open(tool+"/call", os.O_RDWR)
	defer f.Close()
	late := time.AfterFunc(limit, func() { f.Close() })
	defer late.Stop()
	if _, err := f.WriteAt([]byte(args+"\n"), 0); err != nil {
		s.t.Fatalf("%s: %v", tool, err)
	}
	p := make([]byte, 1<<20)
	n, err := f.ReadAt(p, 0)
	if n == 0 {
		s.t.Fatalf("%s: %v", tool, err)
	}
	return string(p[:n])
}

// TestInterrupts ends readers of each stream that share one open file: they
// are gone at once, and take nothing with them.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	marks := 0
	for _, st := range streams(s) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(fmt.Sprintf("%s/%v", st.name, sig), func(t *testing.T) {
				f, err := os.Open(s.path(st.name))
				if err != nil {
					t.Fatalf("%v (%s)", err, s.why())
				}
				defer f.Close()
				cat, printed := reader(t, f)
				if st.again { // what cat has read and not yet written would go with it
					printed.until(s.lastLine(st.name))
				}
				awaitRead(t, cat.Process.Pid)
				cat.Process.Signal(sig)
				before := printed.rest()
				if cat.Wait(); cat.ProcessState.Sys().(syscall.WaitStatus).Signal() != sig {
					t.Errorf("cat ended: %v", cat.ProcessState)
				}
				marks++
				mark := fmt.Sprintf("mark%dm", marks)
				st.wake(mark)
				mark = st.marks(mark)
				cat, printed = reader(t, f)
				printed.until(mark)
				cat.Process.Kill()
				got := before + printed.rest()
				cat.Wait()
				if n := strings.Count(got, mark); n != 1 {
					t.Errorf("%q came out %d times in %q", mark, n, got)
				}
				if !st.again {
					return
				}
				fresh := s.user(need.Tool(t, "cat"), s.path(st.name))
				all := printing(t, fresh)
				all.until(mark)
				fresh.Process.Kill()
				if text := all.rest(); !strings.HasPrefix(text, got) && !strings.HasPrefix(got, text) {
					t.Errorf("two readers got %q, one that was let be %q", got, text)
				}
				fresh.Wait()
			})
		}
	}
}

// reader starts a cat whose standard input is f.
func reader(t *testing.T, f *os.File) (*exec.Cmd, *text) {
	cat := exec.Command(need.Tool(t, "cat"))
	cat.Stdin = f
	return cat, printing(t, cat)
}

// TestInterruptedWait ends readers of a command's wait, and then the command.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		dir := fmt.Sprintf("vm/dev/exec/e%d", sig)
		s.mkdir(dir)
		s.write(dir+"/ctl", "exec sleep 1000\n")
		f, err := os.Open(s.path(dir + "/wait"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cat, printed := reader(t, f)
		awaitRead(t, cat.Process.Pid)
		cat.Process.Signal(sig)
		if text := printed.rest(); text != "" {
			t.Errorf("wait gave %q", text)
		}
		cat.Wait()
		s.write(dir+"/ctl", "kill\n")
		cat, printed = reader(t, f)
		if text := printed.rest(); !strings.HasPrefix(text, "SIGKILL ") || strings.Count(text, "\n") != 1 {
			t.Errorf("after %v wait gave %q", sig, text)
		}
		cat.Wait()
	}
}

// TestKillBesideExec kills a VM by a program that starts another meanwhile.
// The kernel has that one wait in its exec until the write ends, as it closes
// a file that is being written; whoever reads its stat file waits with it.
func TestKillBesideExec(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	program := `open F, ">>", shift or die; $pid = fork;
		unless ($pid) { syswrite(F, "kill\n") or die "kill: $!"; exit }
		system("/bin/true") until waitpid($pid, 1) == $pid; print "ended $?\n"`
	cmd := s.user(need.Tool(t, "perl"), "-e", program, s.path("vm/dev/ctl"))
	printed := printing(t, cmd)
	late := time.AfterFunc(limit, func() { s.cmd.Process.Kill() }) // nothing else ends it
	defer late.Stop()
	printed.until("ended 0\n")
	cmd.Wait()
}

// TestSignals uses the tree while signals that the program has for its own use
// come all the time: what it does is done, once, and succeeds.
func TestSignals(t *testing.T) {
	s := serve(t, true)
	over := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default:
				syscall.Kill(os.Getpid(), syscall.SIGURG) // which Go's runtime uses
			}
		}
	}()
	for i := range 100 {
		vm := s.path(fmt.Sprint("vm/v", i))
		err := os.Mkdir(vm, 0o755)
		for _, do := range []func() error{
			func() error { return os.WriteFile(vm+"/config", []byte("pids 99\n"), 0o644) },
			func() error { return os.WriteFile(vm+"/ctl", []byte("set ttl 1h\n"), 0o644) },
			func() error { return os.WriteFile(vm+"/work/a", []byte("text\n"), 0o644) },
			func() error { return os.Rename(vm+"/work/a", vm+"/work/b") },
			func() error { return os.Mkdir(vm+"/work/d", 0o755) },
		} {
			err = errors.Join(err, do())
		}
		text, rerr := os.ReadFile(vm + "/config")
		if err = errors.Join(err, rerr, os.Remove(vm)); err != nil || !strings.HasPrefix(string(text), "pids 99\nttl 1h\n# default: ") {
			t.Errorf("%v; config %q", err, text)
		}
	}
	close(over)
	<-ended
}
