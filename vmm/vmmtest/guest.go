package vmmtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"hutch/vmm"
)

// Printed has v's guest do what a message to an exec's ctl says, and returns
// what that prints.
func Printed(ctx context.Context, v *vmm.VM, message string) (string, error) {
	g, err := v.Guest()
	if err != nil {
		return "", err
	}
	if err := g.Ready(ctx); err != nil {
		return "", err
	}
	e, err := g.MakeExec(ctx, "t")
	if err != nil {
		return "", err
	}
	defer e.Remove(ctx)
	if err := e.Ctl(ctx, message); err != nil {
		return "", err
	}
	h, err := e.Open(ctx, "stdout", os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer h.Close()
	var out []byte
	for {
		buf := make([]byte, 8192)
		n, err := h.ReadAt(ctx, buf, int64(len(out)))
		out = append(out, buf[:n]...)
		if n == 0 || err != nil {
			return string(out), err
		}
	}
}

// serveVariable is the folder of the table of a service that is to be killed.
const serveVariable = "HUTCH_TEST_SERVE"

// KillService runs the test that calls it once more, in a process of its own
// with the variables env besides. That opens a table, starts the VM dev in it
// and has it do the shell's line, and is killed: it does not return there. Here
// it returns the table of another service, and dev, which that has taken up.
func KillService(t *testing.T, open func(t testing.TB, dir string) *vmm.Table, line string, env ...string) (*vmm.Table, *vmm.VM) {
	t.Helper()
	if dir := os.Getenv(serveVariable); dir != "" {
		if err := serve(t.Context(), open(t, dir), line); err != nil {
			t.Fatal(err)
		}
		fmt.Println("running")
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(append(os.Environ(), serveVariable+"="+dir, "TMPDIR="+t.TempDir()), env...) // it cannot clean up
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	rest, _ := io.ReadAll(out) // ends although the machine runs: it holds nothing of it
	cmd.Wait()
	if said != "running\n" {
		t.Fatalf("the service says %q", said+string(rest))
	}
	table := open(t, dir)
	v, err := table.Lookup("dev")
	if err != nil {
		t.Fatal(err)
	}
	if v.State() != vmm.Running {
		t.Fatalf("status after a kill: %s", v.Status())
	}
	return table, v
}

func serve(ctx context.Context, table *vmm.Table, line string) error {
	v, err := table.Make(ctx, "dev")
	if err != nil {
		return err
	}
	if err := v.Start(ctx); err != nil {
		return err
	}
	_, err = Printed(ctx, v, "sh "+line)
	return err
}
