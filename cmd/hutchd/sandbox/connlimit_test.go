package sandbox

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"hutch/cmd/hutchd/gateway"
	"hutch/vmm"
)

// TestTurnAwayLate has a guest turned away when its VM is gone: nobody is told,
// and nobody counts as being told.
func TestTurnAwayLate(t *testing.T) {
	s := &Service{Service: gateway.Service{Log: slog.New(slog.DiscardHandler)}}
	v := &Sandbox{service: s}
	v.Gateway = gateway.New(&s.Service, gateway.Config{Kind: gateway.VM, Name: func() string { return "dev" }})
	v.Gateway.Close()
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
