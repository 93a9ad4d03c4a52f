package profiles

import (
	"maps"
	"slices"
)

// A file is a profile as TOML has it. Every key is told in profile(5).
type file struct {
	Image   string            `toml:"image"`
	Driver  string            `toml:"driver"`
	Kernel  string            `toml:"kernel"`
	RAM     size              `toml:"ram"`
	Disk    size              `toml:"disk"`
	Records size              `toml:"records"`
	CPUs    float64           `toml:"cpus"`
	PIDs    int               `toml:"pids"`
	Idle    duration          `toml:"idle"`
	TTL     duration          `toml:"ttl"`
	Net     string            `toml:"net"`
	Env     map[string]string `toml:"env"`
	HTTP    http              `toml:"http"`
	Network network           `toml:"network"`
	MCP     mcp               `toml:"mcp"`
	Servers map[string]server `toml:"mcpServers"`
}

type http struct {
	Allow    []string `toml:"allow"`
	MaxBytes size     `toml:"max_bytes"`
	Timeout  duration `toml:"timeout"`
}

type mcp struct {
	MaxPending size `toml:"max_pending"`
}

type network struct {
	Allow    []string `toml:"allow"`
	Block    []string `toml:"block"`
	Private  []string `toml:"private"`
	MaxBytes size     `toml:"max_bytes"`
	Timeout  duration `toml:"timeout"`
}

// A server has the keys of the usual MCP configuration files, and those of
// extra beside them or in a table of their own.
type server struct {
	Command     string            `toml:"command"`
	Args        []string          `toml:"args"`
	Env         map[string]string `toml:"env"`
	Dir         string            `toml:"dir"`
	CWD         string            `toml:"cwd"`
	URL         string            `toml:"url"`
	Type        string            `toml:"type"`
	Headers     map[string]string `toml:"headers"`
	Token       string            `toml:"bearer_token"`
	BearerToken string            `toml:"bearerToken"`
	Disabled    *bool             `toml:"disabled"`
	extra
	Hutch  *extra `toml:"hutch"`
	Capsem *extra `toml:"capsem"`
}

type extra struct {
	Enabled        *bool    `toml:"enabled"`
	Editable       *bool    `toml:"editable"`
	AllowedTools   []string `toml:"allowed_tools"`
	BlockedTools   []string `toml:"blocked_tools"`
	IdleTimeout    duration `toml:"idle_timeout"`
	ConnectTimeout duration `toml:"connect_timeout"`
	CallTimeout    duration `toml:"call_timeout"`
}

// profile returns what f means, or a fault.
func (f *file) profile(name string) (*Profile, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	p := &Profile{Name: name, Image: f.Image, Driver: f.Driver, Kernel: f.Kernel, CPUs: f.CPUs, PIDs: f.PIDs, Net: f.Net, Env: f.Env}
	p.HTTP.Allow = f.HTTP.Allow
	var err error
	if p.RAM, err = f.RAM.bytes(key{"ram"}); err != nil {
		return nil, err
	}
	if p.Disk, err = f.Disk.bytes(key{"disk"}); err != nil {
		return nil, err
	}
	if p.Records, err = f.Records.bytes(key{"records"}); err != nil {
		return nil, err
	}
	if p.Idle, err = f.Idle.time(key{"idle"}); err != nil {
		return nil, err
	}
	if p.TTL, err = f.TTL.time(key{"ttl"}); err != nil {
		return nil, err
	}
	if p.HTTP.MaxBytes, err = f.HTTP.MaxBytes.bytes(key{"http", "max_bytes"}); err != nil {
		return nil, err
	}
	if p.HTTP.Timeout, err = f.HTTP.Timeout.time(key{"http", "timeout"}); err != nil {
		return nil, err
	}
	p.Network = Network{Allow: f.Network.Allow, Block: f.Network.Block, Private: f.Network.Private}
	if p.Network.MaxBytes, err = f.Network.MaxBytes.bytes(key{"network", "max_bytes"}); err != nil {
		return nil, err
	}
	if p.Network.Timeout, err = f.Network.Timeout.time(key{"network", "timeout"}); err != nil {
		return nil, err
	}
	if p.MaxPending, err = f.MCP.MaxPending.bytes(key{"mcp", "max_pending"}); err != nil {
		return nil, err
	}
	if p.Net == "" {
		p.Net = "none"
	}
	for _, name := range slices.Sorted(maps.Keys(f.Servers)) {
		s := f.Servers[name]
		server, err := s.server(name)
		if err != nil {
			return nil, err
		}
		p.Servers = append(p.Servers, *server)
	}
	return p, nil
}

func (s *server) server(name string) (*Server, error) {
	at := key{"mcpServers", name}
	if err := s.merge(at); err != nil {
		return nil, err
	}
	if err := s.check(name, at); err != nil {
		return nil, err
	}
	transport, err := s.transport(name, at)
	if err != nil {
		return nil, err
	}
	v := &Server{
		Name: name, Transport: transport,
		URL: s.URL, Headers: s.Headers, BearerToken: s.Token,
		Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir,
		Enabled:      s.Enabled == nil || *s.Enabled,
		AllowedTools: s.AllowedTools, BlockedTools: s.BlockedTools,
		Source: "profile",
	}
	if v.IdleTimeout, err = s.IdleTimeout.time(at.with("idle_timeout")); err != nil {
		return nil, err
	}
	if v.ConnectTimeout, err = s.ConnectTimeout.time(at.with("connect_timeout")); err != nil {
		return nil, err
	}
	if v.CallTimeout, err = s.CallTimeout.time(at.with("call_timeout")); err != nil {
		return nil, err
	}
	return v, nil
}

// merge gathers what can be said in more than one place. It must be said
// in one.
func (s *server) merge(at key) error {
	if s.CWD != "" {
		if s.Dir != "" {
			return at.with("cwd").faultf("dir says the same: remove one")
		}
		s.Dir = s.CWD
	}
	if s.BearerToken != "" {
		if s.Token != "" {
			return at.with("bearerToken").faultf("bearer_token says the same: remove one")
		}
		s.Token = s.BearerToken
	}
	if s.Disabled != nil {
		if s.Enabled != nil {
			return at.with("disabled").faultf("enabled says the same: remove one")
		}
		enabled := !*s.Disabled
		s.Enabled = &enabled
	}
	if err := s.extra.merge(s.Hutch, at.with("hutch")); err != nil {
		return err
	}
	return s.extra.merge(s.Capsem, at.with("capsem"))
}

func (x *extra) merge(y *extra, at key) error {
	if y == nil {
		return nil
	}
	for _, m := range []struct {
		key  string
		both bool
	}{
		{"enabled", mergeInto(&x.Enabled, y.Enabled, x.Enabled == nil, y.Enabled == nil)},
		{"editable", mergeInto(&x.Editable, y.Editable, x.Editable == nil, y.Editable == nil)},
		{"allowed_tools", mergeInto(&x.AllowedTools, y.AllowedTools, x.AllowedTools == nil, y.AllowedTools == nil)},
		{"blocked_tools", mergeInto(&x.BlockedTools, y.BlockedTools, x.BlockedTools == nil, y.BlockedTools == nil)},
		{"idle_timeout", mergeInto(&x.IdleTimeout, y.IdleTimeout, x.IdleTimeout == "", y.IdleTimeout == "")},
		{"connect_timeout", mergeInto(&x.ConnectTimeout, y.ConnectTimeout, x.ConnectTimeout == "", y.ConnectTimeout == "")},
		{"call_timeout", mergeInto(&x.CallTimeout, y.CallTimeout, x.CallTimeout == "", y.CallTimeout == "")},
	} {
		if m.both {
			return at.with(m.key).faultf("%s stands in another place too: remove one", m.key)
		}
	}
	return nil
}

// mergeInto sets x to y where x is not set, and tells whether both are.
func mergeInto[T any](x *T, y T, noX, noY bool) (both bool) {
	if noX {
		*x = y
	}
	return !noX && !noY
}
