// Package permission reads the permission profiles of ToolHive, which say what
// an MCP server may read, write and reach, and tells what each means for the
// VM that the server runs in. server(5) tells of them. The format is that of
// the package permissions of toolhive-core. Nothing here mounts or reaches
// anything.
package permission

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// A Profile is what a permission profile says.
type Profile struct {
	Name       string   `json:"name,omitempty"`
	Read       []string `json:"read,omitempty"`  // in the forms of ParseMount
	Write      []string `json:"write,omitempty"` // likewise; what can be written can be read
	Network    *Network `json:"network,omitempty"`
	Privileged bool     `json:"privileged,omitempty"`
}

// A Network is what a profile says of the network. Where it says nothing of it
// there is none.
type Network struct {
	Mode     string    `json:"mode,omitempty"`
	Outbound *Outbound `json:"outbound,omitempty"`
	Inbound  *Inbound  `json:"inbound,omitempty"`
}

// Outbound is what a server may reach.
type Outbound struct {
	All   bool     `json:"insecure_allow_all,omitempty"`
	Hosts []string `json:"allow_host,omitempty"`
	Ports []int    `json:"allow_port,omitempty"`
	// Transports are tcp and udp, of profiles written before ToolHive took the field away.
	// Where there are some, and no tcp, nothing can be reached.
	Transports []string `json:"allow_transport,omitempty"`
}

// Inbound is who may call a server, which no profile can say here.
type Inbound struct {
	Hosts []string `json:"allow_host,omitempty"`
}

// The names of the built-in profiles.
const (
	BuiltinNone    = "none"    // no folder and no network
	BuiltinNetwork = "network" // every public host
)

// The limits of a profile.
const (
	MaxText  = 64 << 10 // bytes
	maxHosts = 256
	maxPorts = 64
	maxPairs = 1024 // of a host and a port
)

// A Fault is what is wrong with a profile.
type Fault struct {
	Path string // of the field, as read[0]; "": the profile as a whole
	Text string // goes on after it

	Secret bool // what is wrong is, or may be beside, a secret's value
}

func (f *Fault) Error() string { return strings.TrimPrefix(f.Path+" "+f.Text, " ") }

func faultf(path, format string, args ...any) *Fault {
	return &Fault{Path: path, Text: fmt.Sprintf(format, args...)}
}

// Builtin returns the built-in profile of a name, nil if there is none.
func Builtin(name string) *Profile {
	switch name {
	case BuiltinNone:
		return &Profile{Name: name, Network: &Network{Outbound: &Outbound{}}}
	case BuiltinNetwork:
		return &Profile{Name: name, Network: &Network{Outbound: &Outbound{All: true}}}
	}
	return nil
}

// Parse reads a profile. Its error wraps fs.ErrInvalid and a Fault. A field that
// is not known is one: nobody can tell what it was to forbid.
func Parse(text []byte) (*Profile, error) {
	p := new(Profile)
	fault := p.decode(text)
	if fault == nil {
		fault = p.check()
	}
	if fault != nil {
		return nil, fmt.Errorf("%w: permission profile: %w", fs.ErrInvalid, fault)
	}
	return p, nil
}

// decode reads text. The parts are decoded once more by themselves, as the names
// of their fields have to be just those.
func (p *Profile) decode(text []byte) *Fault {
	switch {
	case len(text) > MaxText:
		return faultf("", "has %d bytes: at most %d", len(text), MaxText)
	case !utf8.Valid(text):
		return faultf("", "is not UTF-8")
	}
	if err := rawjson.Unique(text); err != nil {
		return faultf("", "cannot be read: %v", err)
	}
	for _, part := range []struct {
		path string
		into any
	}{{"", p}, {"network", new(Network)}, {"network.outbound", new(Outbound)}, {"network.inbound", new(Inbound)}} {
		raw := rawjson.Get(text, strings.Split(part.path, ".")...)
		if part.path == "" {
			raw = text
		}
		if string(raw) == "null" && part.path != "" {
			continue
		}
		if err := rawjson.Decode(raw, part.into); err != nil {
			return faultf(part.path, "cannot be read: %v", err)
		}
	}
	return nil
}

// check says what in the profile no server can have, whoever allows it.
func (p *Profile) check() *Fault {
	if p.Name != "" {
		if err := fs.CheckWord("its", p.Name); err != nil {
			return faultf("name", "%.64q is no word of letters, digits, dots, dashes and underscores", p.Name)
		}
	}
	if _, fault := p.mounts(); fault != nil {
		return fault
	}
	if _, fault := p.Network.patterns(); fault != nil {
		return fault
	}
	return p.Network.checkCallers()
}
