package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hutch/aggd/oauth"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/mcpd/ledger"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// A Server is an MCP server that hutch runs, or reaches, for whoever asks: an
// endpoint with that server alone, whose tools have their own names.
type Server struct {
	*gateway.Gateway
	Name string

	w    *Workloads
	dir  string
	turn chan struct{} // holds a token: whoever has it starts, stops, changes or removes the server

	changed chan struct{} // wakes watch
	heard   chan struct{} // wakes a start

	written[*runconfig.Config] // whose mu guards what follows

	state runconfig.State         // what it was told to be
	why   error                   // it is in error
	abort context.CancelCauseFunc // ends a start under way; nil: there is none
	said  []string                // what there was to decide about names of tools

	logins    context.Context // of a login: ends with endLogins
	endLogins context.CancelCauseFunc
	since     time.Time
	known     *credential   // of the config that it was asked for last; nil: there is none
	pending   oauth.Pending // what a login waits for; zero: there is none
}

// The files of a server's folder.
const (
	configFile = "config.json"
	wantedFile = "wanted" // is there while the server is to run
	madeFile   = "made"   // is as old as the server
)

// records is how much of a server's records is kept, in bytes.
const records = 64 << 20

// newServer returns the server of a folder.
func (w *Workloads) newServer(name string) *Server {
	s := &Server{
		Name: name, w: w, dir: w.serverDir(name), turn: make(chan struct{}, 1),
		changed: make(chan struct{}, 1), heard: make(chan struct{}, 1), state: runconfig.Stopped, since: time.Now(),
	}
	s.Gateway = gateway.New(&w.s.Service, gateway.Config{
		Kind: gateway.Server, Name: func() string { return name }, Dir: s.dir,
		Profile:     func() string { return profiles.Default },
		Running:     s.wanted,
		Idle:        func() bool { return !s.wanted() },
		LedgerLimit: func() int64 { return records },
		State:       func() ledger.Row { return ledger.Row{"state": string(s.told())} },
		Servers:     s.servers,
		Endpoint:    mcpd.Config{Changed: s.wake, Resolve: s.resolve},
	})
	s.logins, s.endLogins = context.WithCancelCause(s.Context())
	s.Do(s.watch)
	return s
}

// wanted says whether the server is to run.
func (s *Server) wanted() bool {
	state := s.told()
	return state == runconfig.Starting || state.Live()
}

// servers is what the endpoint has: the server, or none that can be run.
func (s *Server) servers(p *profiles.Profile) []wire.Server {
	c := s.Config()
	if c == nil {
		return nil
	}
	d, err := definition(c.Server(), permission.TermsOf(p))
	d.Name = s.Name
	if err != nil {
		d.Fault = fs.Text(err)
	}
	if c.Server().IsRemote() {
		d = s.asGroup(d)
	}
	return []wire.Server{d}
}

// SetConfig makes text the server's config. One that does not parse is kept as it
// was written, unless it may have a secret's value in it (runconfig.ErrSecret), and the
// one before stays in force: the error says why.
func (s *Server) SetConfig(ctx context.Context, text string) error {
	return s.do(ctx, func(context.Context) error {
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
	if path == "name" && value != "" && value != s.Name {
		return fmt.Errorf("%w: %s: a server is called as its folder is, which cannot be renamed: make another", fs.ErrInvalid, s)
	}
	return s.change(ctx, func(c *runconfig.Config) (*runconfig.Config, error) { return c.Set(path, value) })
}

// change gives the server the config that f makes of the one in force.
func (s *Server) change(ctx context.Context, f func(*runconfig.Config) (*runconfig.Config, error)) error {
	return s.do(ctx, func(context.Context) error {
		if err := s.Editable(); err != nil {
			return err
		}
		return s.make(f)
	})
}

// make gives the server the config that f makes of the one in force.
func (s *Server) make(f func(*runconfig.Config) (*runconfig.Config, error)) error {
	c, err := s.next(f)
	if err != nil {
		return err
	}
	return s.store(string(c.Text()))
}

// next returns the config that f makes of the one in force, unless that does not count,
// or another was written that does not: it would be lost.
func (s *Server) next(f func(*runconfig.Config) (*runconfig.Config, error)) (*runconfig.Config, error) {
	c := s.Config()
	if bad := s.ConfigErr(); bad != nil {
		return nil, fmt.Errorf("%s: what was last written to config does not count, and would be lost: mend it first: %w", s, bad)
	}
	if c == nil {
		c = runconfig.Empty()
	}
	c, err := f(c)
	if err == nil {
		err = s.admits(c.Server())
	}
	if err != nil {
		return nil, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return c, s.w.checkGroup(c.Server().Group)
}

// store writes a config down, and takes it in.
func (s *Server) store(text string) error {
	if _, err := runconfig.Decode([]byte(text)); errors.Is(err, runconfig.ErrSecret) {
		return err
	}
	if err := fs.WriteFile(filepath.Join(s.dir, configFile), []byte(text), true); err != nil {
		return err
	}
	s.LastErr.Mended(s.ConfigErr())
	return s.read(text)
}

// read takes a config's text in.
func (s *Server) read(text string) error {
	was := s.group()
	err := s.decode(text)
	if now := s.group(); now != was {
		s.w.regroup(was, now)
		s.regrouped()
	}
	return err
}

func (s *Server) decode(text string) error {
	c, err := runconfig.Decode([]byte(text))
	if err == nil {
		err = s.admits(c.Server())
	}
	s.w.mu.Lock() // the group is to stay until the server is in it
	defer s.w.mu.Unlock()
	if err == nil {
		err = s.w.checkGroup(c.Server().Group)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.bad = text, err
	if err == nil {
		if s.known != nil && s.known.of == s.config && s.state.Live() {
			s.known.of = c // of a server that runs only the group is another
		}
		s.config = c
	}
	return err
}

// admits refuses a config that asks for what no start would give. A file that it names may
// be missing until then.
func (s *Server) admits(c *runconfig.Server) error {
	for _, text := range values(c) {
		if err := s.w.s.Secrets.Check(text); err != nil {
			return err
		}
	}
	if byLogin(c) {
		_, err := s.client(c)
		return err
	}
	p, err := s.w.s.Profiles.Get(s.ProfileName())
	if err != nil { // of which there is another error
		return nil
	}
	asks, err := c.Permissions()
	if err == nil {
		_, err = asks.Grant(permission.TermsOf(p))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
}

// told returns the state that was entered last.
func (s *Server) told() runconfig.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// State returns what the server is doing.
func (s *Server) State() runconfig.State { state, _ := s.look(); return state }

// Status is the state, then key value lines.
func (s *Server) Status() string {
	state, why := s.look()
	s.mu.Lock()
	since, c, said := s.since, s.config, s.said
	s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nsince %s\n", state, since.UTC().Format(time.RFC3339Nano))
	if made, err := os.Stat(filepath.Join(s.dir, madeFile)); err == nil {
		fmt.Fprintf(&b, "made %s\n", made.ModTime().UTC().Format(time.RFC3339Nano))
	}
	if why != nil {
		fmt.Fprintf(&b, "reason %s\n", fs.QuoteLine(fs.Text(why)))
	}
	if c == nil {
		return b.String()
	}
	v := c.Server()
	if v.Source.Kind != "" {
		fmt.Fprintf(&b, "source %s\ntransport %s\n", v.Source, v.Transport)
	}
	b.WriteString(s.imageStatus(v.Source))
	if v.Entry != "" {
		fmt.Fprintf(&b, "entry %s\n", v.Entry)
	}
	fmt.Fprintf(&b, "group %s\n", cmp.Or(s.group(), "-"))
	if !v.IsRemote() {
		fmt.Fprintf(&b, "vm %s\n", ofServer(s.Name).vm())
	}
	if p, err := s.w.s.Profiles.Get(s.ProfileName()); err == nil {
		b.WriteString(shown(v, permission.TermsOf(p)))
	}
	fmt.Fprintf(&b, "tools %d\nsessions %d\n%s", len(s.MCP.Items(wire.Tools)), s.MCP.Sessions(), s.CallLines())
	for _, u := range c.Unused() {
		fmt.Fprintf(&b, "unused %s\n", fs.QuoteLine(u.String()))
	}
	if !state.Live() {
		said = nil
	}
	for _, note := range slices.Concat(said, s.unlisted(s.Context())) {
		fmt.Fprintf(&b, "note %s\n", fs.QuoteLine(note))
	}
	return b.String()
}
