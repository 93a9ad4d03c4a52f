package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/vmcp"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// take waits for the caller's turn, which ends with give.
func (s *Server) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Context().Done():
		return fmt.Errorf("%w: %s", fs.ErrNotExist, s)
	}
}

func (s *Server) give() { <-s.turn }

// do does f when it is the caller's turn. To wait no longer does not end it.
func (s *Server) do(ctx context.Context, f func(context.Context) error) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !s.Do(func() {
		defer s.give()
		done <- f(s.Context())
	}) {
		s.give()
		return fmt.Errorf("%w: %s", fs.ErrNotExist, s)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter has the server be in the state that an event brings it to.
func (s *Server) enter(on runconfig.Event, why error) error {
	s.mu.Lock()
	next, err := s.state.Next(on)
	if err == nil {
		s.state, s.why, s.since = next, why, time.Now()
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	text := ""
	if why != nil {
		text = fs.Text(why)
		s.LastErr.Set(why)
		fmt.Fprintf(s.AggLog(), "%s: %s: %s\n", s.Name, next, s.Hides(text))
	}
	s.Tell(ledger.VMs, s.NewEvent(string(next), text))
	s.w.regroup(s.group())
	return nil
}

// startTime is how long a start waits for the server's first word: packages may
// have to be had first.
const startTime = 5 * time.Minute

// Start starts the server. It returns when the server has said what it has, and its
// group, if that is served, has it too, and fails with the reason when it does not.
func (s *Server) Start(ctx context.Context) error {
	if err := s.startNow(ctx); err != nil {
		return err
	}
	if g, err := s.w.Group(s.group()); err == nil {
		g.settle(ctx)
	}
	return nil
}

// startNow is Start without its group.
func (s *Server) startNow(ctx context.Context) error {
	return s.do(ctx, func(ctx context.Context) error {
		err := s.start(ctx, true)
		if err != nil && !unauthenticates(err) { // after which it is to run still
			os.Remove(s.wantedPath())
			return err
		}
		// Not before: a start that nobody saw succeed is not the next hutchd's to make.
		return errors.Join(err, os.WriteFile(s.wantedPath(), nil, 0o600))
	})
}

func (s *Server) wantedPath() string { return filepath.Join(s.dir, wantedFile) }

// start is Start where it is the caller's turn. Look has it look for a newer version of
// its package, where that may be.
func (s *Server) start(ctx context.Context, look bool) error {
	if s.wanted() {
		return nil
	}
	c, err := s.ready()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.setAbort(cancel) // before others see that it starts
	defer s.setAbort(nil)
	if err := s.enter(runconfig.Start, nil); err != nil {
		return err
	}
	if err = s.fetch(ctx, c.Server()); err == nil {
		err = s.blamed(c.Server(), s.begin(ctx, c, look))
	}
	switch {
	case err == nil:
		err = s.enter(runconfig.Done, nil)
		s.w.s.Service.Served(s.Name)
		return err
	case errors.Is(context.Cause(ctx), errStopped): // whatever it was that ended by that
		return errors.Join(errStopped, s.halt(context.WithoutCancel(ctx)))
	case unauthenticates(err):
		return errors.Join(err, s.refuse(err))
	}
	return errors.Join(err, s.fail(err))
}

// ready returns the config of a server that can be started.
func (s *Server) ready() (*runconfig.Config, error) {
	c := s.Config()
	switch bad := s.ConfigErr(); {
	case c == nil && bad != nil:
		return nil, fmt.Errorf("%s: config: %w", s, bad)
	case c == nil || c.Server().Source.Kind == "":
		return nil, fmt.Errorf("%w: %s: nobody has said what it is: write config, or run REF to ctl", fs.ErrInvalid, s)
	}
	p, err := s.w.s.Profiles.Get(s.ProfileName())
	if err == nil {
		_, err = definition(c.Server(), permission.TermsOf(p))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return c, nil
}

// begin starts the endpoint, and waits for the server to be connected.
func (s *Server) begin(ctx context.Context, c *runconfig.Config, look bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("%w: the server says nothing", fs.ErrTimedOut))
	defer cancel()
	s.Renew()
	server := c.Server()
	arrange := vmcp.Alone(s.Name, server.Tools, overrides(server))
	s.MCP.SetArrange(func(list *wire.List, items []wire.Item) []wire.Item {
		arranged, said := arrange.Arrange(list, items)
		if list == wire.Tools {
			s.mu.Lock()
			s.said = said
			s.mu.Unlock()
		}
		return arranged
	})
	if s.exchange() == nil {
		if err := s.authenticate(ctx, c); err != nil {
			return err
		}
	}
	if err := s.Configure(ctx); err != nil {
		return err
	}
	if err := s.install(ctx, server, look); err != nil {
		return err
	}
	if err := s.MCP.Start(); err != nil {
		return err
	}
	if err := s.connected(ctx); err != nil {
		return err
	}
	s.MCP.Settled(ctx) // its tools are known
	return nil
}

func overrides(s *runconfig.Server) map[string]vmcp.Override {
	all := make(map[string]vmcp.Override)
	for tool, o := range s.Overrides {
		all[tool] = vmcp.Override{Name: o.Name, Description: o.Description}
	}
	return all
}

// connected waits until the server is connected, and fails when that failed.
func (s *Server) connected(ctx context.Context) error {
	refused := "" // by which another token was asked for
	for {
		st, err := s.MCP.Status(ctx, s.Name)
		switch {
		case err == nil && st.Connected:
			return nil
		case err == nil && st.Refused != refused && st.Refused != "":
			refused = st.Refused
			if err := s.renew(ctx, refused); err != nil {
				return err
			}
			continue // it may have a fault now, of which the aggregator does not tell
		case err == nil && st.Error != "":
			return errors.New(s.Hides(st.Error))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.heard:
		}
	}
}

// fail ends a start that failed.
func (s *Server) fail(why error) error {
	err := s.end(context.WithoutCancel(s.Context()))
	return errors.Join(s.enter(runconfig.Fail, why), err)
}

// stopTime is how long what runs in the sandbox has to end in order.
const stopTime = 5 * time.Second

// end ends what the server runs, and its sandbox: that goes first where it does not answer.
func (s *Server) end(ctx context.Context) error {
	killed := make(chan error, 1)
	late := time.AfterFunc(stopTime, func() { killed <- s.rest(ctx) })
	err := s.MCP.Stop()
	if !late.Stop() {
		err = errors.Join(err, <-killed)
	}
	return errors.Join(err, s.rest(ctx))
}

// rest stops the server's sandbox.
func (s *Server) rest(ctx context.Context) error {
	return s.w.use(ctx, ofServer(s.Name), s.w.rest)
}

// errStopped ends a start that somebody stops.
var errStopped = fmt.Errorf("%w: it was stopped", fs.ErrBusy)

func (s *Server) setAbort(f context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort = f
}

// Stop stops the server with its sandbox, while it starts, too.
func (s *Server) Stop(ctx context.Context) error {
	s.endLogin()
	s.mu.Lock()
	if s.abort != nil {
		s.abort(errStopped)
	}
	s.mu.Unlock()
	return s.do(ctx, func(ctx context.Context) error {
		os.Remove(s.wantedPath())
		if !s.wanted() && s.told() != runconfig.Unauthenticated {
			return nil
		}
		return s.halt(ctx)
	})
}

// halt stops a server that runs or starts.
func (s *Server) halt(ctx context.Context) error {
	if err := s.enter(runconfig.Stop, nil); err != nil {
		return err
	}
	s.EndLinks(notServed(s.Name, runconfig.Stopped))
	err := s.end(ctx)
	if err != nil {
		return errors.Join(err, s.enter(runconfig.Fail, err))
	}
	return s.enter(runconfig.Done, nil)
}

// The pauses between the starts of a server that ran when hutchd ended, and cannot
// be started.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// resume starts a server that ran when hutchd ended, again until it runs or somebody
// says otherwise. It does not wait for that.
func (s *Server) resume() {
	s.Later(func(ctx context.Context) error {
		for pause := firstPause; ; pause = min(2*pause, lastPause) {
			err := s.do(ctx, s.startWanted)
			if err == nil || unauthenticates(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
		}
	})
}

// startWanted starts the server if it is still to run.
func (s *Server) startWanted(ctx context.Context) error {
	if _, err := os.Stat(s.wantedPath()); err != nil {
		return nil
	}
	return s.start(ctx, false)
}
