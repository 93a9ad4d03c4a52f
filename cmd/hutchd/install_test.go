//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// mk runs mk in the module's folder, which has what need.Programs builds.
func mk(t *testing.T, args ...string) {
	t.Helper()
	program := need.Tool(t, "/usr/lib/plan9/bin/mk")
	need.Programs(t)
	cmd := exec.Command(program, args...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mk %s: %v\n%s", args, err, out)
	}
}

// installed are files that a user of each program looks for, below its prefix.
var installed = []string{
	"bin/hutch", "bin/hutchd", "lib/hutch/aggd", "lib/hutch/locald", "lib/hutch/guest", "lib/hutch/runsc",
	"share/man/man1/hutch.1", "share/man/man4/hutch.4", "share/man/man5/profile.5", "share/man/man8/hutchd.8",
	"share/man/man8/guest.8", "share/man/man8/aggd.8", "share/man/man8/locald.8",
	"share/bash-completion/completions/hutch", "share/zsh/site-functions/_hutch", "share/fish/vendor_completions.d/hutch.fish",
	"lib/systemd/system/hutchd.service", "share/systemd/user/hutchd.service",
}

// TestInstall runs a sandbox by what is installed, which has nothing of the
// checkout.
func TestInstall(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	mk(t, "DESTDIR="+dest, "prefix=/opt/h", "install")
	prefix := filepath.Join(dest, "opt/h")
	for _, name := range installed {
		if st, err := os.Stat(filepath.Join(prefix, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, unit := range []string{"lib/systemd/system", "share/systemd/user"} {
		text, _ := os.ReadFile(filepath.Join(prefix, unit, "hutchd.service"))
		for _, line := range []string{"Type=notify", "ExecStart=/opt/h/bin/hutchd", "Delegate=yes", "DelegateSubgroup=hutchd", "KillMode=process"} {
			if !strings.Contains(string(text), "\n"+line+"\n") {
				t.Errorf("the unit in %s has no %s:\n%s", unit, line, text)
			}
		}
	}
	s := newService(t, false)
	s.bin = filepath.Join(prefix, "bin")
	s.start()
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.cmd.Process.Pid)); !strings.HasPrefix(exe, dest) {
		t.Errorf("hutchd is %s, %v", exe, err)
	}
	if out, err := s.command("hutch", "run", "echo", "hi").CombinedOutput(); string(out) != "hi\n" {
		t.Errorf("run: %q, %v", out, err)
	}
	if kernel, _ := filepath.Glob("../../bin/kernel/boot/vmlinuz-*"); len(kernel) > 0 {
		if found, _ := filepath.Glob(filepath.Join(prefix, "lib/hutch/kernel/boot/vmlinuz-*")); len(found) != len(kernel) {
			t.Errorf("kernels %v of %v", found, kernel)
		}
	}
	s.mkdir("vm/dev")
	completion := filepath.Join(prefix, "share/fish/vendor_completions.d/hutch.fish")
	fish := s.user(need.Tool(t, "fish"), "-c", "source "+completion+"; complete -C 'hutch start d'")
	fish.Env = append(fish.Env, "PATH="+s.bin+":"+os.Getenv("PATH"), "HOME="+dest)
	if out, err := fish.CombinedOutput(); strings.TrimSpace(string(out)) != "dev" {
		t.Errorf("fish: %q, %v", out, err)
	}
	zsh := s.user(need.Tool(t, "zsh"), "-n", filepath.Join(prefix, "share/zsh/site-functions/_hutch"))
	if out, err := zsh.CombinedOutput(); err != nil {
		t.Errorf("zsh: %q, %v", out, err)
	}
}

// TestDeb looks into the Debian package, and runs a sandbox by what is in it.
func TestDeb(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	dpkg := need.Tool(t, "dpkg-deb")
	mk(t, "deb")
	packages, _ := filepath.Glob("../../bin/hutch_*.deb")
	if len(packages) != 1 {
		t.Fatalf("packages %v", packages)
	}
	defer os.Remove(packages[0])
	root := t.TempDir()
	if out, err := exec.Command(dpkg, "-x", packages[0], root).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	s := newService(t, false)
	s.bin = filepath.Join(root, "usr/bin")
	s.start()
	if out, err := s.command("hutch", "run", "echo", "hi").CombinedOutput(); string(out) != "hi\n" {
		t.Errorf("run: %q, %v", out, err)
	}
	list, err := exec.Command(dpkg, "-c", packages[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range installed {
		if strings.HasPrefix(name, "share/man") {
			name += ".gz"
		}
		name = strings.Replace(name, "zsh/site-functions", "zsh/vendor-completions", 1)
		if !strings.Contains(string(list), " ./usr/"+name) {
			t.Errorf("no %s in\n%s", name, list)
		}
	}
	about, _ := exec.Command(dpkg, "-f", packages[0], "Package", "Version", "Architecture").Output()
	if !strings.HasPrefix(string(about), "Package: hutch\nVersion: 0.") {
		t.Errorf("it says %s", about)
	}
}
