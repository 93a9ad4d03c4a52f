package replica_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const nobody = 65534

func runAsNobody(t *testing.T) {
	dir, err := os.MkdirTemp("", "hutch-nobody-")
	must(t, err)
	defer os.RemoveAll(dir)
	self, err := os.Open("/proc/self/exe")
	must(t, err)
	defer self.Close()
	prog := filepath.Join(dir, "test")
	out, err := os.OpenFile(prog, os.O_WRONLY|os.O_CREATE, 0o755)
	must(t, err)
	_, err = io.Copy(out, self)
	must(t, err, out.Close(), os.Chown(dir, nobody, nobody))
	cmd := exec.Command(prog, "-test.skip=TestOrdinaryUser|TestShared")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
