//go:build linux

package gvisor

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/vmm"
	"hutch/vmm/process"
)

// TestGoferEndsLast ends two processes in the order in which a killed gofer
// and its sandbox may be seen to end: the cause last.
func TestGoferEndsLast(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked bool
		gofer unix.Signal
		want  string
	}{
		{"killed", false, unix.SIGKILL, "gofer ended: signal killed"},
		{"asked", true, unix.SIGKILL, "sandbox ended: exit status 137"},
		{"by itself", false, 0, "sandbox ended: exit status 137"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sandbox, endSandbox := child(t, "read x; exit 137")
			gofer, endGofer := child(t, "read x; exit 0")
			m := newMachine(vmm.Spec{Dir: t.TempDir()})
			m.sandbox, m.gofer, m.ports = sandbox, gofer, &ports{dir: t.TempDir(), end: func() {}}
			if c.asked {
				m.ask()
			}
			go m.watch()
			endSandbox()
			<-sandbox.Gone()
			if c.gofer != 0 {
				gofer.Signal(c.gofer)
			} else {
				endGofer()
			}
			<-m.watched
			if m.err == nil || m.err.Error() != c.want {
				t.Errorf("ended with %v, want %s", m.err, c.want)
			}
		})
	}
}

// TestKillWhileItEnds kills a machine whose processes are let go of already.
func TestKillWhileItEnds(t *testing.T) {
	m := newMachine(vmm.Spec{})
	m.sandbox, _ = child(t, "read x")
	m.gofer, _ = child(t, "read x")
	m.sandbox.End()
	m.gofer.End()
	go func() {
		<-m.asked
		close(m.done)
		close(m.watched)
	}()
	if err := m.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// child starts a shell with script; end closes its input.
func child(t *testing.T, script string) (p *process.Process, end func()) {
	cmd := exec.Command("sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, err = process.Child(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return p, func() { in.Close() }
}
