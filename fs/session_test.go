package fs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"hutch/fs"
	"hutch/fs/node"
	"hutch/relay/call"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// TestSessionsSideBySide has three programs of one guest talk MCP at once.
func TestSessionsSideBySide(t *testing.T) {
	failed := make(chan error, 1)
	state, log := t.TempDir(), node.NewLog(1<<20)
	s, err := fs.New(fs.Config{
		State: state, Log: slog.New(slog.NewTextHandler(log, nil)), Level: new(slog.LevelVar), ServiceLog: log,
		CrashLog: filepath.Join(state, "panics"), Shutdown: func() {}, Mount: func() string { return "none" },
		Drivers: []vmm.Driver{&vmmtest.Driver{Guest: func(ctx context.Context, g vmmtest.Guest) {
			failed <- sideBySide(ctx, g)
			guest(ctx, g)
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	vms, err := s.Root().Walk(t.Context(), "vm")
	if err != nil {
		t.Fatal(err)
	}
	vm, err := vms.Mkdir(t.Context(), "x", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := vm.Walk(t.Context(), "ctl")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ctl.Open(t.Context(), os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.WriteAt(t.Context(), []byte("start\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// sideBySide opens one session after the other and closes none meanwhile.
func sideBySide(ctx context.Context, g vmmtest.Guest) error {
	for range 3 {
		conn, err := g.Dial(ctx, vmm.PortMCP)
		if err != nil {
			return err
		}
		c, err := call.New(ctx, conn, "test")
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Do(ctx, "tools/list", []byte("{}")); err != nil {
			return err
		}
	}
	return nil
}
