//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// tour returns the lines of the README's tour, which starts where the tree
// is mounted for root.
func tour(t *testing.T, mount string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A tour\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var lines []string
	for line := range strings.Lines(section) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, code)
		}
	}
	if len(lines) < 8 || lines[0] != "cd /mnt/hutch\n" {
		t.Fatalf("the tour is %q", lines)
	}
	lines[0] = "cd " + mount + "\n"
	return strings.Join(lines, "")
}

// shells are those that the tour is for, as they are told to give up at the
// first line that fails.
var shells = []struct {
	name, program string
	args          []string
}{
	{"dash", "dash", []string{"-e"}},
	{"dash noclobber", "dash", []string{"-e", "-C"}},
	{"bash", "bash", []string{"-e"}},
	{"bash noclobber", "bash", []string{"-e", "-C"}},
	{"rc", "/usr/lib/plan9/bin/rc", []string{"-e"}},
}

func takeTours(t *testing.T, s *service) {
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			cmd := s.user(need.Tool(t, sh.program), sh.args...)
			cmd.Stdin = strings.NewReader(tour(t, s.mount))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"Linux dev ", "workspace\n0 ", "\nhello\nrunning\n"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if vms := s.read("status"); vms != "" {
				t.Errorf("after the tour there is %q", vms)
			}
		})
	}
}

func TestTour(t *testing.T) {
	t.Parallel()
	takeTours(t, serve(t, true))
}

func TestTourOrdinaryUser(t *testing.T) {
	t.Parallel()
	s := ordinary(t)
	s.start()
	if drivers := s.read("drivers"); !strings.Contains(drivers, "rootless=yes") {
		t.Errorf("drivers: %s", drivers)
	}
	takeTours(t, s)
}

// TestManualExamples runs what hutch.4 shows of anonymous commands and calls.
func TestManualExamples(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	s.tool("dev", "local__echo")
	for name, c := range map[string]struct{ script, want string }{
		"command": {`
			exec 3<>vm/dev/exec/clone
			read n <&3
			echo sh 'echo hi' >&3
			cat vm/dev/exec/$n/stdout
			exec 3>&-`, "hi\n"},
		"call": {`
			cd vm/dev/mcp/tools/local__echo
			exec 3<>call
			echo '{"text":"hello"}' >&3
			cat <&3`, `{"content":[{"type":"text","text":"hello"}]}` + "\n"},
		"call, each file opened once": {`
			mkdir vm/dev/mcp/sessions/s
			echo 'call local__echo {"text":"hello"}' >>vm/dev/mcp/sessions/s/ctl
			echo eof >>vm/dev/mcp/sessions/s/ctl
			grep -v notifications/ vm/dev/mcp/sessions/s/out
			rmdir vm/dev/mcp/sessions/s`, `{"jsonrpc":"2.0","id":"ctl-1","result":{"content":[{"type":"text","text":"hello"}]}}` + "\n"},
		"call without a mount": {
			`echo '{"text":"hello"}' | ` + filepath.Join(s.bin, "hutch") + ` 9p rdwr vm/dev/mcp/tools/local__echo/call`,
			`{"content":[{"type":"text","text":"hello"}]}` + "\n"},
		// dd and cat agree, a byte at a time and all at once, but on what is measured anew
		"dd": {`still() { grep -v -e uptime -e memory -e '^cpu ' | sed 's/ .* of / of /'; }
			for f in README ctl vm/dev/status vm/dev/config vm/dev/policy/rules; do
			[ "$(dd bs=1 if=$f 2>/dev/null | still)" = "$(still <$f)" ] || echo $f differs; done`, ""},
		"tee": {`echo debug on | tee ctl; grep debug ctl; echo debug off | tee -a ctl >/dev/null; grep debug ctl`, "debug on\ndebug on\ndebug off\n"},
	} {
		for _, shell := range []string{"dash", "bash"} {
			t.Run(name+"/"+shell, func(t *testing.T) {
				cmd := s.user(need.Tool(t, shell), "-c", c.script)
				cmd.Dir = s.mount
				if out, err := cmd.Output(); string(out) != c.want {
					t.Errorf("%q, %v %s", out, err, stderr(err))
				}
				// what is anonymous goes after its last file is closed
				poll(t, "end of the commands", func() bool { return s.names("vm/dev/exec") == "clone" })
			})
		}
	}
}

// stderr returns what a command said whose error err is.
func stderr(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}
