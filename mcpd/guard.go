package mcpd

import (
	"context"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
)

// A Guard says before a request is made of a server whether it may be. done is told
// when it was: failed, if the server could not be reached or took too long; an error
// that the server answers is none, unless that is an endpoint, too, and says so of its
// own server. It must not block.
type Guard func(server string) (done func(failed bool), err error)

// guard asks the Guard, if there is one.
func (e *Endpoint) guard(server string) (done func(failed bool), err error) {
	if e.cfg.Guard == nil {
		return func(bool) {}, nil
	}
	return e.cfg.Guard(server)
}

// SetWhole says whether lists are refused while a server has not said what it offers;
// else they are then what the others offer.
func (e *Endpoint) SetWhole(whole bool) { e.whole.Store(whole) }

// incomplete is the error for a list that lacks what a server offers, where it has to
// be whole.
func (e *Endpoint) incomplete(ctx context.Context) *Error {
	if !e.whole.Load() {
		return nil
	}
	there := e.listed(ctx)
	var missing []string
	for _, s := range e.rules.Load().list {
		if s.Enabled && !slices.Contains(there, s.Name) {
			missing = append(missing, s.Name)
		}
	}
	if missing == nil {
		return nil
	}
	return failure(jsonrpc.CodeBusy, "not available: %s; lists are refused until all servers are, see mcp/servers", strings.Join(missing, ", "))
}
