package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hutch/fs"
)

// builds are the commands that make the programs of a service in bin/.
var builds = []struct {
	what string
	args []string
}{
	{"hutch, hutchd, aggd, locald, guest", []string{"build", "-o", "bin/", "./cmd/..."}},
	{"runsc, which takes a minute or two the first time", []string{"build", "-C", "vmm/gvisor/runsc", "-ldflags", "-s -w",
		"-o", "../../../bin/runsc", "gvisor.dev/gvisor/runsc"}},
}

// sourceTree returns hutch's source tree if we are in it, or "".
func sourceTree(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	if path, dir, ok := strings.Cut(strings.TrimSpace(string(out)), " "); err == nil && ok && path == "hutch" {
		return dir
	}
	return ""
}

// programs returns the folder of hutchd and what it needs: built now, in the
// source tree, or the one that this program is in.
func programs(ctx context.Context) (string, error) {
	top := sourceTree(ctx)
	if top == "" {
		exe, err := os.Executable()
		return filepath.Dir(exe), err
	}
	for _, b := range builds {
		fmt.Fprintf(os.Stderr, "building %s … ", b.what)
		began := time.Now()
		cmd := exec.CommandContext(ctx, "go", b.args...)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintln(os.Stderr)
			return "", fmt.Errorf("%w: go %s: %w\n%s", fs.ErrIO, strings.Join(b.args, " "), err, out)
		}
		fmt.Fprintf(os.Stderr, "%.1fs\n", time.Since(began).Seconds())
	}
	return filepath.Join(top, "bin"), nil
}

// A service is a hutchd of our own, with a state folder that goes with it.
type service struct {
	bin, dir, addr, mount string
	cmd                   *exec.Cmd
	out                   *os.File // its log
	tail                  chan struct{}
}

// startService starts hutchd from bin on a new state folder, mounted beside
// it if this machine can.
func startService(bin string) (*service, error) {
	dir, err := os.MkdirTemp("", "hutch-")
	if err != nil {
		return nil, err
	}
	s := &service{bin: bin, dir: dir, addr: "unix!" + filepath.Join(dir, "9p"), mount: "none"}
	if canMount() {
		s.mount = filepath.Join(dir, "mnt")
	}
	if s.out, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, s.stop(err)
	}
	s.cmd = exec.Command(filepath.Join(bin, "hutchd"), "-state", filepath.Join(dir, "state"), "-listen", s.addr, "-mount", s.mount)
	s.cmd.Stderr = s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is ours to pass on
	ready, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.cmd = nil
		return nil, s.stop(err)
	}
	lines := bufio.NewReader(ready)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready ") {
		text, _ := os.ReadFile(s.out.Name())
		return nil, s.stop(fmt.Errorf("%w: hutchd did not start: %s", fs.ErrIO, strings.TrimSpace(string(text))))
	}
	s.tail = make(chan struct{})
	go func() { io.Copy(io.Discard, lines); close(s.tail) }()
	return s, nil
}

// canMount says whether this user can mount by FUSE here.
func canMount() bool {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	_, err = exec.LookPath("fusermount3")
	return err == nil || os.Getuid() == 0
}

// stop ends the service with every VM, removes its folder, and returns err
// or what went wrong here.
func (s *service) stop(err error) error {
	if s.cmd != nil {
		if s.tail != nil {
			err = errors.Join(err, s.purge())
		}
		s.cmd.Process.Signal(os.Interrupt)
		if s.tail != nil {
			<-s.tail
		}
		if werr := s.cmd.Wait(); err == nil && werr != nil {
			err = fmt.Errorf("hutchd: %w", werr)
		}
	}
	if s.out != nil {
		s.out.Close()
	}
	return cmp.Or(err, os.RemoveAll(s.dir))
}

// purge removes the VMs that an interrupt left: they would outlive hutchd.
func (s *service) purge() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := attach(ctx, s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return writeFile(c, "ctl", "purge all\n")
}
