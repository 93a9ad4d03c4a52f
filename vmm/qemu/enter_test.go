//go:build linux

package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// TestEnter has another program than QEMU begin as that does: it sees programs
// and what it is to open, and nothing else of the host.
func TestEnter(t *testing.T) {
	sleep := need.Tool(t, "sleep")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(filepath.Join(dir, "kernel"), []byte("kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &command{}
	path, err := c.plain(filepath.Join(dir, "kernel"))
	if err != nil {
		t.Fatal(err)
	}
	c.add("1000")
	p, err := c.start(sleep, dir, log, owner(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer p.End()
	proc := fmt.Sprintf("/proc/%d/", p.PID())
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if line, _ := os.ReadFile(proc + "cmdline"); strings.HasPrefix(string(line), programName+"\x00") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not begin")
		}
	}
	if said, _ := os.ReadFile(log); len(said) > 0 {
		need.Missing(t, string(said))
	}
	var names []string
	list, err := os.ReadDir(proc + "root")
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), "lib") {
			names = append(names, e.Name())
		}
	}
	if got := strings.Join(names, " "); got != "bin dev etc files sbin usr" || err != nil {
		t.Errorf("it sees %s, %v", got, err)
	}
	if text, err := os.ReadFile(proc + "root" + path); string(text) != "kernel" {
		t.Errorf("%s has %q, %v", path, text, err)
	}
	if err := os.WriteFile(proc+"root/usr/x", nil, 0o644); err == nil {
		t.Error("it can write to /usr")
	}
	for _, ns := range []string{"mnt", "pid", "net", "ipc", "uts"} {
		host, _ := os.Readlink("/proc/self/ns/" + ns)
		if own, err := os.Readlink(proc + "ns/" + ns); own == host || err != nil {
			t.Errorf("it has the host's namespace %s: %v", ns, err)
		}
	}
	status, _ := os.ReadFile(proc + "status")
	for _, want := range []string{"CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("status has no %q:\n%s", want, status)
		}
	}
}

// TestRoot has what hutchd says of a root say whether there is one: a folder
// that is in its place is the reason that there is none.
func TestRoot(t *testing.T) {
	for name, want := range map[string]string{"other": "own", "root": "host (mkdir DIR/root: file exists)"} {
		m := &trial{dir: t.TempDir(), program: need.Tool(t, "true")}
		if err := os.Mkdir(filepath.Join(m.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := m.root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		said, _ := os.ReadFile(m.log())
		if name == "other" && len(got) > len("own") {
			need.Missing(t, string(said))
		}
		if got = strings.ReplaceAll(got, m.dir, "DIR"); got != want {
			t.Errorf("with a folder %s the root is %s, want %s", name, got, want)
		}
		m.close()
	}
}

// QEMU goes without what hutchd may not have, not because of what lacks for a
// moment.
func TestPassing(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EAGAIN: true, unix.ENOMEM: true, unix.EMFILE: true, unix.ENFILE: true,
		unix.EPERM: false, unix.EINVAL: false, unix.ENOSPC: false, unix.EUSERS: false, unix.ENOSYS: false,
	} {
		if got := passing(&os.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: err}); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
