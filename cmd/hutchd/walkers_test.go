//go:build linux

package main_test

import (
	"bytes"
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestWalkers has programs that read whole trees read this one, with a VM
// that runs: they come to their end, and make nothing.
func TestWalkers(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", "sh echo out; sleep 1000\n")
	s.write("vm/dev/work/note", "needle\n")
	s.mkdir("vm/dev/snap/before")
	s.call("dev", "local__echo", `{"text":"needle"}`)
	s.calls("dev", "local__echo")
	need.Tool(t, "find")
	for _, c := range []struct {
		line  string
		has   []string
		fails string // what it may complain of
	}{
		{"ls -lR --ignore=root .", []string{"./vm/dev/exec/t:\n", " note\n", "./vm/dev/mcp/tools/local__echo:\n"}, ""},
		{"find . -path ./vm/dev/root -prune -o -print", []string{"\n./vm/dev/exec/t/stdout\n", "\n./vm/dev/work/note\n", "\n./vm/dev/snap/before/work/note\n"}, ""},
		{"du -a --exclude=root .", []string{"\t./vm/dev/work/note\n", "\t.\n"}, ""},
		// Streams say that there is no more now, and what makes things that it must be opened for writing.
		{"grep -r --devices=skip --exclude-dir=root needle .", []string{"./vm/dev/work/note:needle\n", "./vm/dev/snap/before/work/note:needle\n", "./vm/dev/log/mcp:", "./vm/dev/mcp/calls:"},
			"Resource temporarily unavailable|Permission denied"},
		{"find vm/dev/root -path vm/dev/root/usr -prune -o -print", []string{"\nvm/dev/root/etc/passwd\n", "\nvm/dev/root/proc/1/status\n", "\nvm/dev/root/workspace/note\n"}, ""},
		{"ls -lR vm/dev/root/dev vm/dev/root/run vm/dev/root/workspace vm/dev/root/tmp", []string{" note\n", " null\n"}, ""},
		{"du -s vm/dev/root/sys vm/dev/root/workspace", []string{"\tvm/dev/root/sys\n"}, ""},
		{"cd vm/dev/root && grep -r --devices=skip needle workspace dev sys run tmp", []string{"workspace/note:needle\n"}, "Input/output error|Permission denied|Operation not permitted"},
		// what is read there without an end must have one here
		{"cd vm/dev/root/proc && grep -r --devices=skip -s needle self/status 1 sys", nil, "Input/output error|No such file or directory|Permission denied"},
	} {
		cmd := s.user("sh", "-c", c.line)
		cmd.Dir = s.mount
		var out, complaints bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &complaints
		cmd.Run()
		if end := ended(cmd); end != "0" && (c.fails == "" || end != "1" && end != "2") {
			t.Errorf("%s: ended %s", c.line, end)
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%.3000s", c.line, want, out.String())
			}
		}
		for line := range strings.Lines(complaints.String()) {
			expected := false
			for text := range strings.SplitSeq(c.fails, "|") {
				expected = expected || text != "" && strings.HasSuffix(line, text+"\n")
			}
			if !expected {
				t.Errorf("%s: %s", c.line, line)
			}
		}
	}
	if status, execs := s.read("status"), s.names("vm/dev/exec"); status != "dev running gvisor host\n" || execs != "clone t" {
		t.Errorf("after all that, the VMs are %q, the commands %q", status, execs)
	}
}

func (s *service) names(dir string) string {
	s.t.Helper()
	entries, err := s.client().ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}
