package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"hutch/aggd/confine"
)

// confined has the command begin confined, and its program executed by a
// descriptor, the last of its files: its user may not reach the program's folder.
func confined(cmd *exec.Cmd) error {
	program, err := os.Open(cmd.Path)
	if err != nil {
		return err
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles[:len(cmd.ExtraFiles):len(cmd.ExtraFiles)], program)
	cmd.SysProcAttr = confine.Attributes()
	if runtime.GOOS == "linux" {
		cmd.Path = fmt.Sprintf("/proc/self/fd/%d", 2+len(cmd.ExtraFiles))
	}
	return nil
}
