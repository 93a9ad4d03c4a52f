package process

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestExec looks at a process that calls itself again and again: it is of the
// family all the time.
func TestExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	text := "n=$1\n[ $n -eq 0 ] && read end\nexec /bin/sh \"$0\" $((n - 1))\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", script, "1000")
	end, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	defer end.Close()
	f := Family{Names: []string{"/bin/sh"}, Mark: script}
	looks, last := 0, "/bin/sh\x00"+script+"\x000\x00"
	for string(arguments(cmd.Process.Pid)) != last {
		if !f.has(cmd.Process.Pid) {
			t.Fatalf("not found at look %d", looks)
		}
		looks++
	}
	if looks == 0 {
		t.Error("looked too late")
	}
}

// TestNotInExec looks at processes that are waited for in vain.
func TestNotInExec(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	io.ReadAll(out)
	p, err := Child(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.LetGo()
	<-p.Gone()
	for what, pid := range map[string]int{"this": os.Getpid(), "a zombie": cmd.Process.Pid, "the kernel's or nobody's": 2} {
		if inExec(pid) {
			t.Errorf("%s is taken for one in an exec", what)
		}
	}
}
