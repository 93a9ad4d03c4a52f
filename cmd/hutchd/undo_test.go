//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// lastPoint returns the ID of what can be undone last, once a line of it says so.
func (s *service) lastPoint(says string) string {
	s.t.Helper()
	id := ""
	poll(s.t, "point "+says, func() bool {
		lines := strings.Split(strings.TrimSpace(s.read("vm/dev/undo")), "\n")
		id, _, _ = strings.Cut(lines[len(lines)-1], " ")
		return strings.Contains(lines[len(lines)-1], says)
	})
	return id
}

// undoing returns a service with a VM that runs and whose calls and commands
// can all be undone.
func undoing(t *testing.T, mounted bool) *service {
	s := serve(t, mounted)
	s.undoing()
	return s
}

func (s *service) undoing() {
	s.t.Helper()
	s.mkdir("vm/dev")
	s.write("vm/dev/ctl", "set undo all\nstart\n")
}

// TestUndo undoes what a guest and its tools did while a command of it runs on,
// with a folder of the workspace for its own and a file open.
func TestUndo(t *testing.T) {
	t.Parallel()
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		undo(t, serve(t, true))
	})
	t.Run("user", func(t *testing.T) {
		t.Parallel()
		s := ordinary(t)
		s.start()
		undo(t, s)
	})
}

func undo(t *testing.T, s *service) {
	s.undoing()
	s.run(`echo one >f; mkdir -p d/deep; echo kept >d/kept; ln d/kept d/name; ln -s f link; mkfifo pipe; chmod 751 d; truncate -s 1G sparse; setfattr -n user.a -v b f 2>/dev/null || true`)
	s.mkdir("vm/dev/exec/editor")
	s.write("vm/dev/exec/editor/ctl", "sh cd d; exec 3<../f; echo ready; while ! test -e /tmp/end; do :; done; cat <&3; cat ../f; ls; cat kept; echo mine >new\n")
	s.ready("vm/dev/exec/editor")
	before := s.shell("cd vm/dev/work; find . -printf '%P %y %m %n %s %l %T@\n' | sort")
	text := s.call("dev", "file_write", `{"path":"f","content":"two"}`)
	call := s.lastPoint("file_write")
	if !strings.Contains(text, "f") || s.read("vm/dev/work/f") != "two" {
		t.Fatalf("the tool says %s", text)
	}
	s.run(`rm -r link d/name d/deep; echo x >>d/kept; chmod 700 d; mkdir came; echo y >came/z; rm pipe; echo pipe >pipe; rm sparse`)
	held, err := s.client().Open("vm/dev/work/f", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	after := s.shell("cd vm/dev/work; find . -printf '%P %y %m %n %s %l %T@\n' | sort")
	s.write("vm/dev/ctl", "undo "+call+"\n")
	if now := s.shell("cd vm/dev/work; find . -printf '%P %y %m %n %s %l %T@\n' | sort"); now != before {
		t.Errorf("the workspace was\n%sand is\n%s", before, now)
	}
	if st, err := os.Stat(filepath.Join(s.state(), "vm/dev/work/sparse")); err != nil || st.Sys().(*syscall.Stat_t).Blocks > 64 {
		t.Errorf("the file with a hole: %v %v", st, err)
	}
	s.run("touch /tmp/end")
	if out := s.read("vm/dev/exec/editor/stdout"); !strings.HasSuffix(out, "ready\ntwoone\ndeep\nkept\nname\nkept\n") {
		t.Errorf("the command that ran on says %q", out)
	}
	if wait := s.read("vm/dev/exec/editor/wait"); !strings.HasPrefix(wait, "0 ") {
		t.Errorf("it ended %s", wait)
	}
	if out := s.shell("cat vm/dev/work/d/new; cat vm/dev/work/f; test ! -f vm/dev/work/pipe || echo pipe; rm vm/dev/work/d/new"); out != "mine\none\n" {
		t.Errorf("the mount has %q", out)
	}
	log := s.read("vm/dev/log/snapshots")
	for _, want := range []string{`"event":"undone","name":"` + call + `"`, "removed came/", "restored f", "restored d/kept", "restored link", "undo undo-1 takes that back"} {
		if !strings.Contains(log, want) {
			t.Errorf("log/snapshots lacks %s:\n%s", want, log)
		}
	}
	s.write("vm/dev/ctl", "undo undo-1\n")
	if now := s.shell("cd vm/dev/work; find . -printf '%P %y %m %n %s %l %T@\n' | sort"); now != after {
		t.Errorf("the workspace was\n%sand is\n%s", after, now)
	}
}

// TestUndoBusy undoes what a guest does that does not stop doing it: each time
// its files are what they were at one moment.
func TestUndoBusy(t *testing.T) {
	t.Parallel()
	s := undoing(t, false)
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh i=0; while :; do i=$((i+1)); echo $i >a; echo $i >b; test $i = 5 && echo ready; done\n")
	s.ready("vm/dev/exec/t")
	for range 6 {
		s.call("dev", "dir_create", `{"path":"d"}`)
		id := s.lastPoint("dir_create")
		kept := "vm/dev/snap/before-" + id + "/work/"
		a, b := s.read(kept+"a"), s.read(kept+"b") // either may be empty, as it is about to be written
		x, xerr := strconv.Atoi(strings.TrimSpace(a))
		y, yerr := strconv.Atoi(strings.TrimSpace(b))
		if xerr == nil && yerr == nil && x != y && x != y+1 {
			t.Errorf("before %s a is %q and b is %q", id, a, b)
		}
		s.write("vm/dev/ctl", "undo "+id+"\n")
		if status := s.read("vm/dev/exec/t/status"); !strings.HasPrefix(status, "running\n") {
			t.Fatalf("the command is %s", status)
		}
	}
}

// TestUndoKilled kills hutchd while it undoes: the next says so, and both states
// are there to be gone to.
func TestUndoKilled(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := undoing(t, false)
	s.run("mkdir many; i=0; while test $i -lt 3000; do i=$((i+1)); echo old >many/$i; done")
	s.run("cd many; for f in *; do echo new >$f; done")
	id, was, is := s.lastPoint("echo new"), "old", "new"
	undone := 1
	for ; !s.killWhileUndoing(id); undone++ { // it was too late: all was undone, which can be undone
		if undone == 10 {
			t.Fatal("each of ten was undone before hutchd was killed")
		}
		id, was, is = fmt.Sprint("undo-", undone), is, was
	}
	as := fmt.Sprint("undo-", undone)
	s.start()
	if _, err := os.Stat(filepath.Join(s.state(), "vm/dev/undoing")); err == nil {
		t.Error("that it was under way is still noted")
	}
	if text := s.read("vm/dev/err"); !strings.Contains(text, "undo "+id+" again, or undo "+as) {
		t.Errorf("err is %q", text)
	}
	for _, state := range []struct{ id, want string }{{as, is}, {id, was}} {
		s.write("vm/dev/ctl", "undo "+state.id+"\n")
		if out := s.run("cat many/* | sort | uniq -c | tr -s ' '"); out != " 3000 "+state.want+"\n" {
			t.Errorf("undo %s: the guest has %q", state.id, out)
		}
	}
}

// killWhileUndoing kills hutchd when it has begun to undo what id names, and says
// whether it had not ended that. If it had, hutchd runs.
func (s *service) killWhileUndoing(id string) bool {
	s.t.Helper()
	note := filepath.Join(s.state(), "vm/dev/undoing")
	done := make(chan error, 1)
	c := s.dial()
	defer c.Close()
	go func() {
		f, err := c.Open("vm/dev/ctl", os.O_WRONLY)
		if err == nil {
			_, err = f.Write([]byte("undo " + id + "\n"))
		}
		done <- err
	}()
	there := func() bool { _, err := os.Lstat(note); return err == nil }
	for !there() { // no rest: it is there for some milliseconds
		select {
		case err := <-done:
			if err != nil {
				s.t.Fatal(err)
			}
			return false
		default:
			runtime.Gosched()
		}
	}
	s.signal(syscall.SIGKILL)
	<-done
	if there() {
		return true
	}
	s.start()
	return false
}

// TestUndoFails has a call do nothing that could not be undone.
func TestUndoFails(t *testing.T) {
	t.Parallel()
	s := undoing(t, false)
	s.call("dev", "file_write", `{"path":"f","content":"one"}`)
	snaps := filepath.Join(s.state(), "vm/dev/snap")
	if err := os.Rename(snaps, snaps+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(snaps, nil, 0o644); err != nil { // where a folder should be
		t.Fatal(err)
	}
	f := s.open("vm/dev/mcp/tools/file_write/call", os.O_RDWR)
	defer f.Close()
	_, err := f.WriteAt([]byte(`{"path":"f","content":"two"}`+"\n"), 0)
	if err == nil {
		_, err = f.ReadAt(make([]byte, 4096), 0)
	}
	if err == nil || !strings.Contains(s.why(), "could not be undone") {
		t.Errorf("the call: %v, %s", err, s.why())
	}
	if text := s.read("vm/dev/work/f"); text != "one" {
		t.Errorf("it did %q", text)
	}
	s.mkdir("vm/dev/exec/t")
	if err := s.tryWrite("vm/dev/exec/t/ctl", "exec touch f\n"); err == nil || !strings.Contains(s.why(), "no snapshot to undo it by") {
		t.Errorf("the command: %v, %s", err, s.why())
	}
	if err := os.Remove(snaps); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(snaps+".away", snaps); err != nil {
		t.Fatal(err)
	}
	s.call("dev", "file_write", `{"path":"f","content":"two"}`)
	if text := s.read("vm/dev/work/f"); text != "two" {
		t.Errorf("after that: %q", text)
	}
}
