package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	{"hutch, hutchd, aggd, locald, guest", []string{"-o", "bin/", "./cmd/..."}},
	{"runsc, which takes a minute or two the first time", []string{"-C", "vmm/gvisor/runsc", "-ldflags", "-s -w",
		"-o", "../../../bin/runsc", "."}},
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
		if err := goBuild(ctx, top, b.what, b.args...); err != nil {
			return "", err
		}
	}
	return filepath.Join(top, "bin"), nil
}

// goBuild builds what args say, and tells that it does and how long that takes.
func goBuild(ctx context.Context, top, what string, args ...string) error {
	say := since("building " + what)
	err := new(lastLine).until(context.WithoutCancel(ctx), say, func() error { return goCommand(ctx, top, args...) }) // which ends with ctx
	fmt.Fprintln(os.Stderr, say())
	return err
}

func goCommand(ctx context.Context, top string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: go build %s: %w\n%s", fs.ErrIO, strings.Join(args, " "), err, out)
	}
	return nil
}

// A service is a hutchd of our own.
type service struct{ addr, mount string }

// withService does do while hutchd from bin runs on a new state folder, mounted
// beside it if this machine can. Both go then, with every VM.
func withService(ctx context.Context, bin string, do func(*service, *tree) error) (err error) {
	dir, err := os.MkdirTemp("", "hutch-")
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(dir)) }()
	s := &service{addr: "unix!" + filepath.Join(dir, "9p"), mount: "none"}
	if canMount() {
		s.mount = filepath.Join(dir, "mnt")
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(bin, "hutchd"), "-state", filepath.Join(dir, "state"), "-listen", s.addr, "-mount", s.mount)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is ours to pass on
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		if werr := cmd.Wait(); err == nil && werr != nil {
			err = fmt.Errorf("hutchd: %w", werr)
		}
	}()
	if line, _ := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "ready ") { // it says no more there
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w: hutchd did not start: %s", fs.ErrIO, strings.TrimSpace(string(text)))
	}
	*address = s.addr
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return errors.Join(do(s, c), s.purge())
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
