package vmm

import (
	"context"
	"net"
	"time"
)

// A Sidecar serves one VM beside its machine, as with an MCP endpoint and a
// proxy. It knows its VM; the VM knows nothing of what it does.
//
// The VM's owner calls Begin, End and Close, one at a time, so they must not
// wait for a verb of the VM. The other methods can be called at any time.
type Sidecar interface {
	// Begin is called before the machine starts or is restored, and when Open
	// adopts one that runs. An error fails the start, but does not end what runs.
	Begin(ctx context.Context) error
	// End is called once for each Begin, also for one that failed: when the
	// machine has ended, or when the table closes and lets it run on.
	End()
	// Close is called when the VM is gone, with its files still there to be
	// closed, and when the table closes. It can be called again.
	Close()
	// Conn takes a connection that the guest made to a port other than the
	// agent's. It does not wait.
	Conn(port uint32, c net.Conn)
	// Helpers returns the processes of the sidecar. Their memory, and that of their
	// children, is counted as the VM's.
	Helpers() []int
	// Busy says whether the VM is used beside its guest, or was since it was
	// asked last, as by MCP calls.
	Busy() bool
	// Event is told of each event of the VM. It does not wait.
	Event(Event)
}

// none is the sidecar of a VM that has none.
type none struct{}

func (none) Begin(context.Context) error { return nil }
func (none) End()                        {}
func (none) Close()                      {}
func (none) Conn(_ uint32, c net.Conn)   { c.Close() }
func (none) Helpers() []int              { return nil }
func (none) Busy() bool                  { return false }
func (none) Event(Event)                 {}

// Sidecar returns what Options.Sidecar made for the VM.
func (v *VM) Sidecar() Sidecar { return v.side }

// beginSidecar begins what serves the VM. Whatever comes of that, endSidecar
// has to follow.
func (v *VM) beginSidecar(ctx context.Context) error {
	v.served = true
	return v.side.Begin(ctx)
}

// endSidecar ends what serves the VM, if it was begun.
func (v *VM) endSidecar() {
	if v.served {
		v.served = false
		v.side.End()
	}
}

// event tells the sidecar of an event.
func (v *VM) event(kind Kind, text string) {
	v.side.Event(Event{Time: time.Now(), VM: v.Name(), Kind: kind, Text: text})
}
