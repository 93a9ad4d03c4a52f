package vmm_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/vmm"
)

// TestAdoptUnknown finds machines of which no state file tells.
func TestAdoptUnknown(t *testing.T) {
	w := newWorld(t)
	for name, spoil := range map[string]func(path string) error{
		"broken": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"lost":   os.Remove,
		"stale":  func(path string) error { return os.WriteFile(path, []byte(`{"state":"stopped"}`), 0o600) },
	} {
		if err := spoil(filepath.Join(w.running(name).Dir(), "state")); err != nil {
			t.Fatal(err)
		}
	}
	dead := w.running("dead")
	os.WriteFile(filepath.Join(dead.Dir(), "state"), []byte("{"), 0o600)
	w.driver.Machine("dead").Die(nil)
	w.await("dead stopped guest shut down")
	os.WriteFile(filepath.Join(dead.Dir(), "state"), []byte("{"), 0o600)
	w.crash()
	for _, name := range []string{"broken", "lost", "stale"} {
		w.is(w.lookup(name), vmm.Running)
	}
	const why = "state file does not parse, kept as state.broken: unexpected end of JSON input"
	if status := w.lookup("broken").Status(); !strings.Contains(status, "reason i/o error: "+why+"\n") {
		t.Errorf("status %q", status)
	}
	w.await("broken adopted i/o error: " + why)
	w.is(w.lookup("dead"), vmm.Failed)
	w.await("dead failed " + why)
	w.crash()
	w.is(w.lookup("dead"), vmm.Failed) // which is now in a file that parses
	w.is(w.lookup("broken"), vmm.Running)
}

// TestAdoptAmiss adopts a machine whose endpoint cannot be had.
func TestAdoptAmiss(t *testing.T) {
	w := newWorld(t)
	w.running("dev")
	stops := 0
	w.hooks = hooks{
		Start: func(*vmm.VM) error { return errors.New("session.db is on fire") },
		Stop:  func(*vmm.VM) { stops++ },
	}
	w.crash()
	dev := w.lookup("dev")
	w.is(dev, vmm.Running)
	w.await("dev adopted i/o error: session.db is on fire")
	wantErr(t, dev.Err(), "i/o error: session.db is on fire")
	if err := dev.Stop(w.limit()); err != nil || stops != 1 {
		t.Errorf("stop: %v, and %d of the sidecar", err, stops)
	}
}
