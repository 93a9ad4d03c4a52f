//go:build linux

package main_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// TestUpgrade replaces every program under VMs that run and that are suspended.
func TestUpgrade(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := newService(t, false)
	next := filepath.Join(s.dir, "next")
	if err := os.Mkdir(next, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hutchd", "hutch", "aggd", "locald", "runsc"} {
		copyFile(t, filepath.Join(s.bin, name), filepath.Join(next, name))
	}
	// One that cannot go on where another was.
	build(t, ".", "-ldflags=-T=0x500000", "-o", filepath.Join(next, "guest"), "hutch/cmd/guest")
	longer(t, filepath.Join(next, "runsc"))
	s.start()
	first := s.leave()
	s.bin = next
	s.start()
	s.takeOver(t)

	is := func(vm string, want bool) {
		t.Helper()
		guest, runsc := s.word(vm, "guest"), s.word(vm, "runsc")
		if strings.HasPrefix(guest, first+" ") == want || strings.HasSuffix(guest, " current") != want || strings.HasSuffix(runsc, " current") != want {
			t.Errorf("vm %s: guest %s, runsc %s; the first guest was %s", vm, guest, runsc, first)
		}
	}
	for _, vm := range []string{"run", "asleep", "copy"} {
		is(vm, false)
	}
	s.write("vm/run/ctl", "stop\nstart\n")
	is("run", true)
	s.write("vm/asleep/ctl", "suspend\n")
	is("asleep", false)
	s.write("vm/asleep/ctl", "stop\n")
	s.write("vm/copy/ctl", "kill\n")
	if n := inodes(t, s.state(), "runsc"); n != 1 {
		t.Errorf("%d programs runsc are kept", n)
	}
}

// formerly are commits of this repository whose VMs the next hutchd takes over:
// the first that could suspend and fork VMs, and steps since in what they wrote down.
var formerly = []string{
	"27a65e7", // the first with VMs that are suspended and forked
	"08ed69d", // limits by control group are written down
	"35f339b", // the last that kept no programs
}

// TestUpgradeFrom takes over the VMs of earlier versions.
func TestUpgradeFrom(t *testing.T) {
	need.Patience(t)
	git := need.Tool(t, "git")
	for _, commit := range formerly {
		t.Run(commit, func(t *testing.T) {
			s := newService(t, false)
			now := s.bin
			s.bin = checkOut(t, git, commit, s.dir)
			s.start()
			s.leave()
			s.bin = now
			s.start()
			s.takeOver(t)
		})
	}
}

// leave has a VM run and one suspended that count, and ends hutchd. It returns
// the first words of what status says of the guest program.
func (s *service) leave() string {
	s.t.Helper()
	for _, vm := range []string{"run", "asleep"} {
		s.vm(vm)
		s.mkdir("vm/" + vm + "/exec/t")
		s.write("vm/"+vm+"/exec/t/ctl", counting)
		s.counts(vm)
	}
	s.write("vm/asleep/ctl", "suspend\n")
	sum, _, _ := strings.Cut(s.word("run", "guest"), " ")
	if err := s.signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("hutchd: %v", err)
	}
	return sum
}

// takeOver has those VMs go on, and a copy of the one that runs, each with
// what it was doing.
func (s *service) takeOver(t *testing.T) {
	t.Helper()
	if status := s.read("status"); status != "asleep suspended gvisor host\nrun running gvisor host\n" {
		t.Errorf("the next hutchd has %q", status)
	}
	s.counts("run")
	s.write("vm/asleep/ctl", "resume\n")
	s.write("vm/run/ctl", "fork -live copy\n")
	s.write("vm/copy/ctl", "suspend\nresume\n")
	for _, vm := range []string{"run", "asleep", "copy"} {
		s.counts(vm)
		if out, status := s.sh(vm, "hostname; hutch-relay call -json local__echo '{\"text\":\"hello\"}' >/dev/null && echo called"); out != vm+"\ncalled\n" {
			t.Errorf("vm %s says %q, %s", vm, out, status)
		}
		s.write("vm/"+vm+"/work/stop", "")
		counted(t, "vm "+vm, s.read("vm/"+vm+"/exec/t/stdout"))
	}
}

// word returns what status of a VM says of key.
func (s *service) word(vm, key string) string {
	s.t.Helper()
	for line := range strings.Lines(s.read("vm/" + vm + "/status")) {
		if k, rest, _ := strings.Cut(strings.TrimSpace(line), " "); k == key {
			return rest
		}
	}
	return ""
}

// checkOut builds the programs of a commit below dir, with today's runsc, which
// is the only one that there was.
func checkOut(t *testing.T, git, commit, dir string) string {
	t.Helper()
	cmd := exec.Command(git, "-c", "safe.directory=*", "archive", commit)
	cmd.Dir = "../.."
	var why strings.Builder
	cmd.Stderr = &why
	text, err := cmd.Output()
	if err != nil {
		need.Missing(t, "no commit "+commit+" here, as in a clone without history: "+why.String())
	}
	source := filepath.Join(dir, "source")
	unpack(t, text, source)
	bin := filepath.Join(dir, "former")
	build(t, source, "-o", bin+"/", "./cmd/...")
	copyFile(t, filepath.Join(need.Programs(t), "runsc"), filepath.Join(bin, "runsc"))
	return bin
}

func unpack(t *testing.T, text []byte, dir string) {
	t.Helper()
	in := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		path := filepath.Join(dir, h.Name)
		switch {
		case err != nil:
		case h.Typeflag == tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case h.Typeflag == tar.TypeReg:
			var data []byte
			if data, err = io.ReadAll(in); err == nil {
				err = os.MkdirAll(filepath.Dir(path), 0o755)
			}
			if err == nil {
				err = os.WriteFile(path, data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// longer makes a program another one that does the same.
func longer(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("\x00")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inodes counts the different regular files below dir called name.
func inodes(t *testing.T, dir, name string) int {
	t.Helper()
	seen := make(map[uint64]bool)
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == name && e.Type().IsRegular() {
			if fi, err := e.Info(); err == nil {
				seen[fi.Sys().(*syscall.Stat_t).Ino] = true
			}
		}
		return nil
	})
	return len(seen)
}
