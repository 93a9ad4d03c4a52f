package boot

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// groups is where programs expect control groups; commands is the one that the
// guest's commands are in.
const (
	groups   = "/sys/fs/cgroup"
	commands = groups + "/commands"
)

// group makes the control group for what the agent starts, of at most n
// processes and threads; 0: as many as there is room for. This process and the
// helper stay outside, so that a guest that is full can still be told things.
func group(n int) (*os.File, error) {
	if n == 0 {
		return nil, nil
	}
	if err := unix.Mount("cgroup2", groups, "cgroup2", plain|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("mount %s: %w", groups, err)
	}
	if err := os.WriteFile(groups+"/cgroup.subtree_control", []byte("+pids"), 0); err != nil {
		return nil, err
	}
	if err := os.Mkdir(commands, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(commands+"/pids.max", []byte(strconv.Itoa(n)), 0); err != nil {
		return nil, err
	}
	return os.Open(commands)
}
