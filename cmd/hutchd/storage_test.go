//go:build linux

package main_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/storage/s3/s3test"
)

// TestStorage has the files of a VM in a bucket of an S3 server.
func TestStorage(t *testing.T) {
	t.Parallel()
	b := s3test.Start(t)
	s := newService(t, false)
	s.start()
	profile := func(secret string) string {
		return fmt.Sprintf("[storage]\nprovider = \"s3\"\nquota = \"1KiB\"\ns3 = {endpoint = %q, bucket = %q, prefix = \"team\", access_key = %q, secret_key = %q}\n",
			b.Endpoint, b.Name, b.AccessKey, secret)
	}
	s.write("profiles/default.toml", profile(b.SecretKey))
	s.vm("dev")
	for _, c := range []struct{ tool, args, want string }{
		{"fs.create", `{"path":"a/b","content":"hello"}`, `"success":true,"bytes_written":5`},
		{"fs.create", `{"path":"a/b","content":"x"}`, "file exists"},
		{"fs.read", `{"path":"/workspace/a/b"}`, "hello"},
		{"fs.edit", `{"path":"a/b","old":"hello","new":"good day"}`, `"replacements":1`},
		{"fs.write", `{"path":"c","content":"second"}`, `"bytes_written":6`},
		{"fs.list", `{}`, `"path":"c","type":"file","size":6`},
		{"fs.glob", `{"pattern":"**/b"}`, "a/b"},
		{"fs.grep", `{"pattern":"g..d"}`, "a/b:1:good day"},
		{"fs.read", `{"path":"none"}`, "no such file or directory"},
		{"fs.write", `{"path":"d","content":"` + strings.Repeat("x", 1024) + `"}`, "quota exceeded"},
		{"fs.delete", `{"path":"c"}`, `"success":true`},
		{"fs.read", `{"path":"c"}`, "no such file"},
	} {
		if out := s.call("dev", c.tool, c.args); !strings.Contains(out, c.want) {
			t.Errorf("%s %s: %s, want %s", c.tool, c.args, out, c.want)
		}
	}
	if log := s.read("vm/dev/log/file"); !strings.Contains(log, "/workspace/a/b") || !strings.Contains(log, "quota exceeded") {
		t.Errorf("log/file: %s", log)
	}

	// The process dies, and another one takes its place.
	var pid int
	for line := range strings.Lines(s.read("vm/dev/status")) {
		fmt.Sscanf(line, "storage %d", &pid)
	}
	if pid == 0 {
		t.Fatal("status has no storage")
	}
	for _, f := range []string{"cmdline", "environ"} {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, f)); strings.Contains(string(text), "-key-of-the-test") {
			t.Errorf("%s has a key", f)
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	for end := time.Now().Add(limit); !strings.Contains(s.call("dev", "fs.read", `{"path":"a/b"}`), "good day"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no other one came")
		}
	}

	// A key that is wrong counts with the next reload, and is told nowhere.
	s.write("profiles/default.toml", profile("another-key-of-the-test"))
	s.write("ctl", "reload\n")
	out := s.call("dev", "fs.read", `{"path":"a/b"}`)
	if !strings.Contains(out, "the keys are refused") {
		t.Errorf("wrong key: %s", out)
	}
	for what, text := range map[string]string{
		"the answer": out, "hutchd's log": s.log(), "log/file": s.read("vm/dev/log/file"),
	} {
		if strings.Contains(text, "-key-of-the-test") {
			t.Errorf("%s has a key: %s", what, text)
		}
	}
}
