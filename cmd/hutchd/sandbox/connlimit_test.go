package sandbox

import (
	"errors"
	"net"
	"testing"

	"hutch/vmm"
)

// TestTurnAwayLate has a guest turned away when its VM is gone: nobody is told,
// and nobody counts as being told.
func TestTurnAwayLate(t *testing.T) {
	v := &Sandbox{service: &Service{}, repeats: repeatLimiter{closed: true}}
	v.tasks.end()
	c, guest := net.Pipe()
	defer guest.Close()
	v.turnAway(vmm.PortMCP, c, errors.New("no room"))
	if n := v.refusing.Load(); n != 0 {
		t.Errorf("%d are being told", n)
	}
	if _, err := guest.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}
