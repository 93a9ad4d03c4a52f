package programs

import (
	"io"
	"os"
	"os/user"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// startAs starts a shell's line as a user.
func (r *rig) startAs(t *testing.T, name, line string) (*Program, error) {
	return r.Start(t.Context(), r.Define([]wire.Server{{Name: "s", Program: wire.Program{Command: "/bin/sh", Args: []string{"-c", line}, RunAs: name}}})[0].Descriptor)
}

// said returns what a program writes.
func said(t *testing.T, p *Program) string {
	t.Helper()
	p.In.Close()
	defer p.Out.Close()
	text, err := io.ReadAll(p.Out)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	return string(text)
}

// TestRunAs starts programs as who starts them, as another where that can be, and
// not at all as somebody who is not there.
func TestRunAs(t *testing.T) {
	r := begin(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	const line = `echo "$(id -u) $(id -g) $HOME"`
	p, err := r.startAs(t, me.Username, line)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said(t, p), me.Uid+" "+me.Gid+" "+me.HomeDir+"\n"; got != want {
		t.Errorf("as myself %q, want %q", got, want)
	}
	if _, err := r.startAs(t, "no-such-user", line); err == nil || !strings.Contains(err.Error(), "run_as no-such-user: there is no such user") {
		t.Errorf("as nobody: %v", err)
	}
	other, err := user.Lookup("nobody")
	if err != nil || other.Uid == me.Uid {
		t.Skip("there is no user but this one")
	}
	p, err = r.startAs(t, "nobody", line+`; kill -0 $PPID && echo can`)
	if os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), "only root can start programs as somebody else") {
			t.Errorf("as another: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said(t, p), other.Uid+" "+other.Gid+" "+other.HomeDir+"\n"; got != want {
		t.Errorf("as another %q, want %q", got, want)
	}
}
