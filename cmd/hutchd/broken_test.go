//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// TestBrokenFiles kills hutchd and spoils its files.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("state")
	s.vm("db")
	s.call("db", "local__echo", `{"text":"before"}`)
	s.signal(syscall.SIGKILL)
	for name, text := range map[string]string{"state/state": `{"state":"runn`, "db/session.db": strings.Repeat("rubbish", 9000)} {
		if err := os.WriteFile(filepath.Join(s.state(), "vm", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	events := printing(t, s.command("hutch", "9p", "read", "vm/db/events"))
	events.until(`"event":"damaged"`)
	for name, want := range map[string]string{
		"vm/state/status": "running\nreason i/o error: state file does not parse, kept as state.broken: ",
		"vm/state/err":    "i/o error: state file does not parse, kept as state.broken: ",
		"vm/db/status":    "running\n",
		"vm/db/err":       "i/o error: session database is damaged: ",
	} {
		if text := s.read(name); !strings.HasPrefix(text, want) {
			t.Errorf("%s is %q, want %q", name, text, want)
		}
	}
	for _, pattern := range []string{"state/state.broken", "db/session.db.damaged-*"} {
		if kept, _ := filepath.Glob(filepath.Join(s.state(), "vm", pattern)); len(kept) != 1 {
			t.Errorf("%s: kept %v", pattern, kept)
		}
	}
	for _, vm := range []string{"state", "db"} {
		if out, status := s.sh(vm, "echo here"); out != "here\n" || status != "0" {
			t.Errorf("vm %s says %q, %s", vm, out, status)
		}
	}
	s.call("db", "local__echo", `{"text":"after"}`)
	if calls := s.calls("db", "after"); strings.Contains(calls, "before") {
		t.Errorf("calls of a new database: %s", calls)
	}
}

// TestReadOnlyState kills hutchd, and has the next one find its disk
// read-only: it says so, ends nothing, and all is well when that is over.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	need.Root(t)
	s := serve(t, false)
	s.vm("dev")
	s.mkdir("vm/idle")
	s.signal(syscall.SIGKILL)
	flags := uintptr(syscall.MS_BIND)
	for range 2 {
		if err := syscall.Mount(s.state(), s.state(), "", flags, ""); err != nil {
			need.Missing(t, "no bind mount: "+err.Error())
		}
		flags |= syscall.MS_REMOUNT | syscall.MS_RDONLY
	}
	undo := func() { syscall.Unmount(s.state(), syscall.MNT_DETACH) }
	s.last = undo
	if err := s.tryStart(); err != nil {
		t.Fatalf("hutchd: %v\n%s", err, s.log())
	}
	status := s.read("vm/dev/status")
	if !strings.HasPrefix(status, "running\nreason ") || !strings.Contains(status, "read-only file system") {
		t.Errorf("status on a read-only disk: %s", status)
	}
	if text := s.read("vm/dev/err"); !strings.Contains(text, "read-only file system") {
		t.Errorf("err on a read-only disk: %s", text)
	}
	if err := s.client().Mkdir("vm/more", 0o755); err == nil {
		t.Error("a VM was made on a read-only disk")
	}
	if err := s.tryWrite("vm/idle/ctl", "start\n"); err == nil {
		t.Error("a VM was started on a read-only disk")
	}
	s.signal(syscall.SIGTERM)
	undo()
	s.start()
	if out, status := s.sh("dev", "echo here"); out != "here\n" || status != "0" {
		t.Errorf("afterwards vm dev says %q, %s", out, status)
	}
}
