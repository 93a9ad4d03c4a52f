package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/programs"
	"hutch/cmd/hutchd/telemetry"
	"hutch/fs"
	"hutch/mcpd/asks"
	"hutch/profiles"
	"hutch/profiles/secrets"
)

// A Service is what all gateways share.
type Service struct {
	Profiles  *profiles.Store
	Events    *fs.Log     // of all gateways, a JSON line each
	Asks      *asks.Table // what waits for a person
	Secrets   *secrets.Secrets
	Telemetry *telemetry.Telemetry
	Log       *slog.Logger
	Aggd      string // path of the aggregator program
	Locald    string // path of the program of the built-in tools; "": there are none
	// LedgerIdle is after what time a ledger is closed that nobody needs; 0: 5 minutes.
	LedgerIdle time.Duration

	// Start starts a program that is to run in a sandbox. It is set before there is
	// a gateway; nil: there are no sandboxes for them.
	Start func(ctx context.Context, g *Gateway, s programs.Start) (programs.Task, error)

	ids atomic.Uint64

	gatewaysMu sync.Mutex // guards gateways
	gateways   map[*Gateway]struct{}
}

// NextID returns a number for an object that no other ever had.
func (s *Service) NextID() uint64 { return s.ids.Add(1) }

func (s *Service) enter(g *Gateway) {
	s.gatewaysMu.Lock()
	defer s.gatewaysMu.Unlock()
	if s.gateways == nil {
		s.gateways = make(map[*Gateway]struct{})
	}
	s.gateways[g] = struct{}{}
}

func (s *Service) leave(g *Gateway) {
	s.gatewaysMu.Lock()
	defer s.gatewaysMu.Unlock()
	delete(s.gateways, g)
}

// of returns the gateways that run by a profile.
func (s *Service) of(profile string) (list []*Gateway) {
	s.gatewaysMu.Lock()
	defer s.gatewaysMu.Unlock()
	for g := range s.gateways {
		if g.cfg.Running() && g.cfg.Profile() == profile {
			list = append(list, g)
		}
	}
	return list
}
