package mcpd

import (
	"bytes"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/mcpd/frame"
)

// notify sends a notification to the guest. It never blocks: a guest that
// does not read loses notifications.
func (s *session) notify(method string, params []byte) {
	if s.out == nil {
		return
	}
	f := frame.Frame{Version: uint8(s.version.Load()), Flags: frame.Notification, Process: s.process, Payload: jsonrpc.Notification(method, params)}
	if !s.out.Post(f) {
		s.e.cfg.Log.Debug("notification lost", "vm", s.e.cfg.VM(), "method", method)
	}
}

// takeNotification handles one that is right, and in no bad envelope.
func (s *session) takeNotification(f frame.Frame, m message, merr *Error, env envelope) {
	if merr != nil || m.ID != nil || m.Method == "" {
		s.e.cfg.Log.Debug("notification dropped", "vm", s.e.cfg.VM(), "process", f.Process)
		return
	}
	if env.err == nil && env.is {
		env.err = s.e.cfg.Seal.Wait(env.ticket)
	}
	if env.err != nil {
		s.e.refusedEnvelope(f.Process, m.Method, "", env.err)
		return
	}
	rawjson.OneLine(f.Payload)
	s.notification(m)
}

// notification handles a notification of the guest.
func (s *session) notification(m message) {
	switch m.Method {
	case "notifications/initialized":
		s.client.Load().ready.Store(true)
	case "notifications/cancelled":
		s.cancelled(m)
	case "notifications/progress":
		if a := s.asks.about(m.params.get(pProgressToken)); a != nil {
			s.e.notifyServer(a.client, a.server, m.Method, m.params.raw)
		}
	case "notifications/roots/list_changed":
		s.e.toServers(s, m.Method, m.params.raw)
	default:
		s.e.cfg.Log.Debug("unknown notification dropped", "vm", s.e.cfg.VM(), "method", m.Method)
	}
}

// cancelled gives up the request that the guest does not want any more.
func (s *session) cancelled(m message) {
	id := m.params.get(pRequestID)
	c := s.latest(func(c *call) bool { return id != nil && bytes.Equal(c.message.ID, id) })
	if c == nil || c.message.Method == "initialize" { // which the protocol does not let be cancelled
		return
	}
	reason, _ := m.params.str(pReason)
	c.cancel(&cancellation{reason})
}

// A cancellation is the cause of a call's end when the guest cancelled it.
type cancellation struct{ reason string }

func (c *cancellation) Error() string {
	if c.reason == "" {
		return "cancelled by the client"
	}
	return c.reason
}
