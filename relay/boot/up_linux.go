package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Booted says whether this process is the init of a machine that has just
// been started with our archive.
func Booted() bool {
	_, err := os.Stat("/modules/order")
	return os.Getpid() == 1 && err == nil
}

// A Machine is a virtual machine, from the inside.
type Machine struct {
	Group  *os.File // the folder of the control group for commands; nil: they have none
	layer  *os.File // the disk for what is written
	helper *helper
}

// Up makes a machine of what the kernel has left us, with the environment
// that the host wants.
func Up() (*Machine, error) {
	if err := mountAll("", kernelMounts); err != nil {
		return nil, err
	}
	c, err := readConfig()
	if err != nil {
		return nil, err
	}
	if err := loadModules(); err != nil {
		return nil, err
	}
	m := &Machine{}
	if m.layer, err = makeRoot(c); err != nil {
		return nil, err
	}
	if err := enterRoot(); err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	if err := settle(c); err != nil {
		return nil, err
	}
	if m.Group, err = group(c.PIDs); err != nil {
		return nil, fmt.Errorf("limit of processes: %w", err)
	}
	if m.helper, err = startHelper(c.Shares); err != nil {
		return nil, fmt.Errorf("helper: %w", err)
	}
	return m, nil
}

// readConfig takes what the host has told us.
func readConfig() (Config, error) {
	var c Config
	text, err := os.ReadFile("/config")
	if err != nil {
		return c, err
	}
	os.Remove("/config")
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

// loadModules loads the modules of the archive, in their order, and forgets
// their files.
func loadModules() error {
	order, err := os.ReadFile("/modules/order")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		if err := loadModule(filepath.Join("/modules", name)); err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	return os.RemoveAll("/modules")
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil // built in, or for a processor that this is not
	}
	return err
}

// settle gives the machine its name, its environment and its limits.
func settle(c Config) error {
	if err := (*Machine)(nil).SetHostname(c.Hostname); err != nil {
		return err
	}
	os.Clearenv()
	for _, kv := range c.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			os.Setenv(k, v)
		}
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 16, Max: 1 << 20})
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if err := loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// loopback brings up the network interface lo.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// makeDir makes a folder of the guest's root, unless the image has one.
func makeDir(path string) error {
	err := os.MkdirAll(path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
