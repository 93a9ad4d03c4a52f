package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/vmcp"
	"hutch/profiles"
	"hutch/profiles/runconfig"
)

// A Server is an MCP server that hutch runs, or reaches, for whoever asks: an
// endpoint with that server alone, whose tools have their own names.
type Server struct {
	*gateway.Gateway
	Name string

	w    *Workloads
	dir  string
	turn chan struct{} // holds a token: whoever has it starts, stops or changes the server

	mu     sync.Mutex // guards what follows
	text   string     // of config, as it was written
	config *runconfig.Config
	bad    error           // why text does not count; nil: it does
	state  runconfig.State // what it was told to be
	why    error           // it is in error
	since  time.Time
}

// The files of a server's folder.
const (
	configFile = "config.json"
	wantedFile = "wanted" // is there while the server is to run
)

// records is how much of a server's records is kept, in bytes.
const records = 64 << 20

// newServer returns the server of a folder.
func (w *Workloads) newServer(name string) *Server {
	s := &Server{Name: name, w: w, dir: w.serverDir(name), turn: make(chan struct{}, 1), state: runconfig.Stopped, since: time.Now()}
	s.Gateway = gateway.New(&w.s.Service, gateway.Config{
		Kind: gateway.Server, Name: func() string { return name }, Dir: s.dir,
		Profile:     func() string { return profiles.Default },
		Running:     s.wanted,
		Idle:        func() bool { return !s.wanted() },
		LedgerLimit: func() int64 { return records },
		State:       func() ledger.Row { return ledger.Row{"state": string(s.State())} },
		Servers:     s.servers,
	})
	return s
}

// wanted says whether the server is to run.
func (s *Server) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == runconfig.Starting || s.state.Live()
}

// servers is what the endpoint has: the server, or none that can be run.
func (s *Server) servers(*profiles.Profile) []wire.Server {
	c := s.Config()
	if c == nil {
		return nil
	}
	d, err := definition(c.Server())
	d.Name = s.Name
	if err != nil {
		d.Fault = fs.Text(err)
	}
	return []wire.Server{d}
}

// Config returns what the server is, nil if nothing was said yet.
func (s *Server) Config() *runconfig.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// ConfigText returns the config as it was last written.
func (s *Server) ConfigText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// ConfigErr says why the config as it was last written does not count.
func (s *Server) ConfigErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// SetConfig makes text the server's config. One that does not parse is kept as it
// was written, and the one before stays in force: the error says why.
func (s *Server) SetConfig(ctx context.Context, text string) error {
	return s.do(ctx, func() error {
		if err := s.Editable(); err != nil {
			return err
		}
		return s.store(text)
	})
}

// Editable says why the config cannot be changed now.
func (s *Server) Editable() error {
	if s.wanted() {
		return fmt.Errorf("%w: %s runs: stop it first", fs.ErrBusy, s)
	}
	return nil
}

// Set changes a field of the config, or takes it away where value is "".
func (s *Server) Set(ctx context.Context, path, value string) error {
	return s.change(ctx, func(c *runconfig.Config) (*runconfig.Config, error) { return c.Set(path, value) })
}

// Run has the server be what ref names, with arguments, and starts it.
func (s *Server) Run(ctx context.Context, ref string, args []string) error {
	source, err := runconfig.ParseSource(ref)
	if err != nil {
		return err
	}
	err = s.change(ctx, func(c *runconfig.Config) (*runconfig.Config, error) {
		v := *c.Server()
		v.Name, v.Source, v.Args = s.Name, source, args
		if v.Transport == "" {
			v.Transport = runconfig.Stdio
			if source.Kind == runconfig.Remote {
				v.Transport = runconfig.Streamable
			}
		}
		return c.With(&v)
	})
	if err != nil {
		return err
	}
	return s.Start(ctx)
}

// change gives the server the config that f makes of the one in force.
func (s *Server) change(ctx context.Context, f func(*runconfig.Config) (*runconfig.Config, error)) error {
	return s.do(ctx, func() error {
		if err := s.Editable(); err != nil {
			return err
		}
		c := s.Config()
		if c == nil {
			c = runconfig.Empty()
		}
		c, err := f(c)
		if err != nil {
			return err
		}
		return s.store(string(c.Text()))
	})
}

// store writes a config down, and takes it in.
func (s *Server) store(text string) error {
	if err := fs.WriteFile(filepath.Join(s.dir, configFile), []byte(text), true); err != nil {
		return err
	}
	return s.read(text)
}

// read takes a config's text in.
func (s *Server) read(text string) error {
	c, err := runconfig.Decode([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.bad = text, err
	if err == nil {
		s.config = c
	}
	return err
}

// do does f when it is the caller's turn.
func (s *Server) do(ctx context.Context, f func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Context().Done():
		return fmt.Errorf("%w: %s", fs.ErrNotExist, s)
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
	}
	s.Tell(ledger.VMs, s.NewEvent(string(next), text))
	return nil
}

// startTime is how long a start waits for the server's first word: packages may
// have to be had first.
const startTime = 5 * time.Minute

// Start starts the server. It returns when the server has said what it has, and
// fails with the reason when it does not.
func (s *Server) Start(ctx context.Context) error {
	return s.do(ctx, func() error {
		c := s.Config()
		switch bad := s.ConfigErr(); {
		case c == nil && bad != nil:
			return fmt.Errorf("%s: config: %w", s, bad)
		case c == nil:
			return fmt.Errorf("%w: %s: nobody has said what it is: write config, or run REF to ctl", fs.ErrInvalid, s)
		}
		if _, err := definition(c.Server()); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if s.wanted() {
			return nil
		}
		if err := s.enter(runconfig.Start, nil); err != nil {
			return err
		}
		err := s.begin(ctx, c)
		if err == nil {
			return s.enter(runconfig.Done, nil)
		}
		return errors.Join(err, s.fail(err))
	})
}

// begin starts the endpoint, and waits for the server to be connected.
func (s *Server) begin(ctx context.Context, c *runconfig.Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("%w: the server says nothing", fs.ErrTimedOut))
	defer cancel()
	if err := os.WriteFile(filepath.Join(s.dir, wantedFile), nil, 0o600); err != nil {
		return err
	}
	s.Renew()
	server := c.Server()
	arrange := vmcp.Alone(s.Name, server.Tools, overrides(server))
	s.MCP.SetArrange(func(list *wire.List, items []wire.Item) []wire.Item {
		arranged, _ := arrange.Arrange(list, items)
		return arranged
	})
	if err := s.Configure(ctx); err != nil {
		return err
	}
	if err := s.MCP.Start(); err != nil {
		return err
	}
	return s.connected(ctx)
}

func overrides(s *runconfig.Server) map[string]vmcp.Override {
	all := make(map[string]vmcp.Override)
	for tool, o := range s.Overrides {
		all[tool] = vmcp.Override{Name: o.Name, Description: o.Description}
	}
	return all
}

// pollTime is how often a server that starts is asked how it is.
const pollTime = 20 * time.Millisecond

// connected waits until the server is connected, and fails when that failed.
func (s *Server) connected(ctx context.Context) error {
	for {
		st, err := s.MCP.Status(ctx, s.Name)
		switch {
		case err == nil && st.State == wire.Connected:
			return nil
		case err == nil && st.Error != "":
			return errors.New(s.Hides(st.Error))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollTime):
		}
	}
}

// fail ends a start that failed.
func (s *Server) fail(why error) error {
	s.MCP.Stop()
	os.Remove(filepath.Join(s.dir, wantedFile))
	return errors.Join(s.enter(runconfig.Fail, why), s.w.rest(context.WithoutCancel(s.Context()), s.Name))
}

// Stop stops the server with its sandbox.
func (s *Server) Stop(ctx context.Context) error {
	return s.do(ctx, func() error {
		if !s.wanted() {
			return nil
		}
		if err := s.enter(runconfig.Stop, nil); err != nil {
			return err
		}
		os.Remove(filepath.Join(s.dir, wantedFile))
		err := errors.Join(s.MCP.Stop(), s.w.rest(ctx, s.Name))
		if err != nil {
			return errors.Join(err, s.enter(runconfig.Fail, err))
		}
		return s.enter(runconfig.Done, nil)
	})
}

// State returns what the server is doing: what it was told, and, if it is to run,
// what is so.
func (s *Server) State() runconfig.State { state, _ := s.look(); return state }

// look returns the state, and what is wrong.
func (s *Server) look() (runconfig.State, error) {
	s.mu.Lock()
	state, why := s.state, s.why
	s.mu.Unlock()
	if state != runconfig.Running {
		return state, why
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	st, err := s.MCP.Status(ctx, s.Name)
	switch {
	case err != nil:
		return runconfig.Unhealthy, err
	case st.State == wire.Connected:
		return runconfig.Running, nil
	case st.Error != "":
		return runconfig.Unhealthy, errors.New(s.Hides(st.Error))
	}
	return runconfig.Starting, nil
}

// Status is the state, then key value lines.
func (s *Server) Status() string {
	state, why := s.look()
	s.mu.Lock()
	since, c := s.since, s.config
	s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nsince %s\n", state, since.UTC().Format(time.RFC3339Nano))
	if why != nil {
		fmt.Fprintf(&b, "reason %s\n", fs.QuoteLine(fs.Text(why)))
	}
	if c == nil {
		return b.String()
	}
	v := c.Server()
	fmt.Fprintf(&b, "source %s\ntransport %s\n", v.Source, v.Transport)
	if v.Group != "" {
		fmt.Fprintf(&b, "group %s\n", v.Group)
	}
	if !v.IsRemote() {
		fmt.Fprintf(&b, "vm %s\n", place{kind: alone, server: s.Name}.vm())
	}
	fmt.Fprintf(&b, "tools %d\nsessions %d\n", len(s.MCP.Items(wire.Tools)), s.MCP.Sessions())
	for _, u := range c.Unused() {
		fmt.Fprintf(&b, "unused %s\n", fs.QuoteLine(u.String()))
	}
	return b.String()
}
