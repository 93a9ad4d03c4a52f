//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/confine"
	"hutch/aggd/confine/takeover"
	"hutch/fs/need"
)

// goesOut starts a VM that has an aggregator, its built-in tools and a proxy.
func (s *service) goesOut(vm string) {
	s.t.Helper()
	s.write("profiles/default.toml", "net = \"host-proxy\"\n")
	s.vm(vm)
	if out := s.call(vm, "local__echo", `{"text":"hello"}`); !strings.Contains(out, "hello") {
		s.t.Errorf("local__echo: %s", out)
	}
	s.proxy(vm)
}

// TestConfined reads what confines the processes that reach the network, and has
// hutchd insist on all of it.
func TestConfined(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	if lacks := confine.Lacking(); len(lacks) > 0 {
		if err := s.tryStart("-strict"); err == nil || !strings.Contains(s.log(), lacks[0]) {
			t.Errorf("-strict, without %q: %v\n%s", lacks, err, s.log())
		}
		need.Missing(t, strings.Join(lacks, "; "))
	}
	s.start("-strict")
	s.goesOut("dev")
	status := s.read("vm/dev/status")
	for _, name := range []string{"aggregator", "local", "proxy"} {
		if want := "confined " + name + " user namespaces capabilities landlock seccomp\n"; !strings.Contains(status, want) {
			t.Errorf("no %q in %s", want, status)
		}
	}
}

// TestTakeover has somebody take over each process that reaches the network, as
// root's hutchd and as an ordinary user's, and try to reach everything else.
func TestTakeover(t *testing.T) {
	t.Parallel()
	need.Tool(t, "go")
	if lacks := confine.Lacking(); len(lacks) > 0 {
		need.Missing(t, strings.Join(lacks, "; "))
	}
	t.Run("root", func(t *testing.T) {
		need.Root(t)
		s := newService(t, false)
		s.bin = copyPrograms(t, s)
		takenOver(t, s, true)
	})
	t.Run("ordinary", func(t *testing.T) {
		takenOver(t, ordinary(t), false)
	})
}

// copyPrograms gives a service programs of its own.
func copyPrograms(t *testing.T, s *service) string {
	t.Helper()
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hutchd", "hutch", "guest", "runsc", "aggd", "locald"} {
		install(t, filepath.Join(s.bin, name), bin)
	}
	return bin
}

func takenOver(t *testing.T, s *service, control bool) {
	targets := s.targets(t)
	text, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"aggd", "locald"} {
		os.Remove(filepath.Join(s.bin, program))
		cmd := exec.Command("go", "build", "-tags", "takeover", "-ldflags", "-X 'hutch/aggd/confine/takeover.Target="+string(text)+"'", "-o", s.bin+"/", "hutch/cmd/"+program)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	s.start()
	s.goesOut("dev")
	if control { // what is tried can be done
		for _, try := range takeover.Tries {
			if err := try.Do(targets); err != nil && !slices.Contains(rare, try.Name) {
				t.Errorf("%s without being confined: %v", try.Name, err)
			}
		}
	}
	var log string
	poll(t, "the end of three takeovers", func() bool {
		log = s.read("vm/dev/log/agg")
		return strings.Count(log, " ended\n") == 3
	})
	for _, program := range []string{"aggd", "locald", "proxy"} {
		for _, try := range takeover.Tries {
			if !strings.Contains(log, fmt.Sprintf("takeover %s %s refused: ", program, try.Name)) {
				t.Errorf("%s: %s was done, or not tried", program, try.Name)
			}
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// rare are things that not every kernel lets even root do.
var rare = []string{"vsock", "bpf", "keyring", "io_uring"}

// targets makes what is attacked of a service.
func (s *service) targets(t *testing.T) takeover.Targets {
	t.Helper()
	victim := s.user("sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { victim.Process.Kill() })
	abstract := "hutch-" + filepath.Base(s.dir)
	l, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return takeover.Targets{
		State: s.state(), Socket: strings.TrimPrefix(s.addr, "unix!"), Abstract: abstract, PID: victim.Process.Pid, Dir: dir,
	}
}
