package tree_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/vmm/vmmtest"
)

// TestExecWhileStarting asks for a command in a VM whose guest has not come
// yet, which is told, and once more when it has.
func TestExecWhileStarting(t *testing.T) {
	h := newHouse(t)
	h.guests <- vmmtest.Guest{} // there is no room for another: the next guest waits
	if _, err := h.walk("vm").Mkdir(t.Context(), "dev", 0o755); err != nil {
		t.Fatal(err)
	}
	ctl, err := h.walk("vm/dev/ctl").Open(t.Context(), os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	started := make(chan error, 1)
	go func() {
		_, err := ctl.WriteAt(t.Context(), []byte("start\n"), 0)
		started <- err
	}()
	for end := time.Now().Add(time.Minute); !strings.HasPrefix(h.read("vm/dev/status"), "starting\n"); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("not starting")
		}
	}
	_, err = h.walk("vm/dev/exec/clone").Open(t.Context(), os.O_RDWR)
	if want := `file in use: vm "dev" is starting`; fs.Text(err) != want {
		t.Errorf("while it starts: %v, want %s", err, want)
	}
	<-h.guests
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	f, err := h.walk("vm/dev/exec/clone").Open(t.Context(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
