package layer_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"hutch/fs/need"
)

const nobody = 65534

func runAsNobody(t *testing.T) {
	dir, err := os.MkdirTemp("", "hutch-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		need.Missing(t, err.Error())
	}
	defer self.Close()
	prog := filepath.Join(dir, "test")
	out, err := os.OpenFile(prog, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(out, self)
	out.Close()
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(prog, "-test.skip=TestOrdinaryUser|Fuzz")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
