package tree

import (
	"syscall"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// An Event is one line of events: what happened to a VM, or what was refused it.
type Event struct {
	Time time.Time `json:"timestamp"`
	VM   string    `json:"vm"`
	Kind string    `json:"event"`
	Text string    `json:"text,omitempty"`
}

// maxEvents is how much of the service's events is kept in memory, in bytes.
const maxEvents = 1 << 20

// tell records an event of the service and of the VM, and in another table
// of the VM's ledger if it belongs there.
func (s *Server) tell(v *vm, table string, e Event) {
	e = s.announce(e)
	if v == nil {
		return
	}
	if table != ledger.VMs {
		v.record(table, ledger.Row{"timestamp": e.Time, "event": e.Kind, "text": e.Text})
	}
	c := v.Config()
	v.record(ledger.VMs, ledger.Row{
		"timestamp": e.Time, "event": e.Kind, "text": e.Text,
		"state": string(v.State()), "driver": c.Driver, "image": c.Image,
	})
}

// announce tells of an event of the service, but records it nowhere.
func (s *Server) announce(e Event) Event {
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	if line, err := fs.MarshalLine(e); err == nil {
		s.events.Append(line)
		s.log.Info(e.Kind, "vm", e.VM, "text", e.Text)
	}
	return e
}

func rootEvents(c call, flags int) (fs.Handle, error) {
	return c.At.s.events.Open(true, flags&syscall.O_NONBLOCK != 0), nil
}

func vmEvents(c call, flags int) (fs.Handle, error) {
	return ledgerLog(ledger.VMs, true)(c, flags)
}
