// Package profiles has the keys by which people say what a VM is to be: in
// its config, lines that hutch(4) tells of, and in its profile, a TOML file
// that profile(5) tells of and that names the MCP servers, too, which its agent
// may call. Keys is the table of them all; Resolve tells which of several
// places holds. Nothing here starts or reaches anything.
package profiles

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hutch/aggd/storage"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/policy"
	"hutch/profiles/reference"
)

// AllFiles has tools for files be shown by all their names.
const AllFiles = "both"

// A Profile is what a profile file says. It is shared and not to be changed.
type Profile struct {
	Name    string
	Extends string   // the profile that says what this one does not; "": none
	Import  []string // the AI clients whose servers it takes
	// Editable says, for each section, whether lower layers may set its keys. A
	// section that is not named is editable.
	Editable map[string]bool
	Config
	Network  wire.Network // what a VM may reach, where Net is "host-proxy"
	Env      map[string]string
	Servers  []Server // sorted by name
	Security policy.Config
	Policy   *policy.Policy // compiled of Security and of the servers' lists of tools
	HTTP     HTTP
	Commands Commands
	Storage  Storage
	Hide     string // which secrets are taken out of what servers say: HideKnown, HideNothing or, also as "", HideCredentials
	// Privileged says that corp allows permission profiles that ask to be so.
	Privileged bool
	// MaxPending is how many bytes the VM's MCP sessions may hold; 0: the default.
	MaxPending int64
	// Files says by which names the tools for files are shown that have several: fs or file; ""
	// or AllFiles: by all of them.
	Files string
	// SafeNames has tools and prompts have names that every client takes.
	SafeNames bool
	Limits    wire.Limits // of messages

	locks []lock
}

// HTTP says what the built-in tools that fetch may do.
type HTTP struct {
	Allow    []string      // hosts and networks that may be reached although they are private
	MaxBytes int64         // of a response; 0: the default
	Timeout  time.Duration // of a request; 0: the default
}

// Commands says whether and for how long the tool cmd.run may run commands; which,
// Security says.
type Commands struct {
	Enabled       bool
	Timeout       time.Duration // 0: the default, as of the others
	MaxOutput     int64
	MaxConcurrent int
	Deny          []string // what the names of variables begin with that a command does not get
}

// Storage says where the files of the tools fs.* are.
type Storage struct {
	Provider string // "local" or ""; "s3": in Bucket
	Bucket   storage.Bucket
}

// A Server is an external MCP server, and which of its tools may be called.
type Server struct {
	wire.Server
	Layer   string   // whose it is
	Allowed []string // nil: all
	Blocked []string

	Session     string   // of servers/, a session of which it is; "": none
	Sandboxed   bool     // its program runs in a sandbox of its own
	Image       string   // of that; "": host
	RAM, Disk   int64    // that its sandbox may have, in bytes; 0: what there is
	OneForAll   bool     // one sandbox for all VMs whose profile says the same
	Permissions string   // the name or path of a permission profile; "": none
	Read, Write []string // mounts of the sandbox, as permission profiles write them
	Reach       []string // patterns of what it may reach besides
}

// Secrets returns the values in the profile that are not to be shown: the
// tokens of its servers, the keys of its storage, and what their headers and environments hold.
// What is a reference to a secret may be.
func (p *Profile) Secrets() []string {
	values := []string{p.Storage.Bucket.AccessKey, p.Storage.Bucket.SecretKey}
	for _, s := range p.Servers {
		values = append(values, s.values()...)
		for _, v := range s.Headers {
			if _, credentials, ok := strings.Cut(v, " "); ok {
				values = append(values, credentials)
			}
		}
	}
	var hidden []string
	for _, v := range values {
		if v != "" && !reference.Is(v) {
			hidden = append(hidden, Parts(v)...)
		}
	}
	slices.Sort(hidden)
	return slices.Compact(hidden)
}

// Credentials returns the credentials that the profile itself has of its servers: their
// tokens, and the headers that are secret by their names. References are not among them,
// nor are the values of environments, most of which are ordinary words.
func (p *Profile) Credentials(secret func(name string) bool) (values []string) {
	for _, s := range p.Servers {
		if !reference.Is(s.BearerToken) {
			values = append(values, s.BearerToken)
		}
		for name, v := range s.Headers {
			if secret(name) && !reference.Is(v) {
				_, credentials, _ := strings.Cut(v, " ")
				values = append(values, append(Parts(v), credentials)...)
			}
		}
	}
	return values
}

// References returns the references to secrets that the servers have.
func (p *Profile) References() []string {
	var list []string
	for _, s := range p.Servers {
		list = append(list, slices.DeleteFunc(s.values(), func(v string) bool { return !reference.Is(v) })...)
	}
	return list
}

// onHost says whether the program of a server runs on the host.
func (p *Profile) onHost() bool {
	return slices.ContainsFunc(p.Servers, func(s Server) bool { return s.Command != "" && !s.Sandboxed })
}

// values returns the values of the server that are secrets, or refer to some.
func (s *Server) values() []string {
	values := []string{s.BearerToken}
	values = slices.AppendSeq(values, maps.Values(s.Headers))
	return slices.AppendSeq(values, maps.Values(s.Env))
}

// Parts returns a secret value, and what of it is one by itself: its long lines, as
// logs show them.
func Parts(value string) []string {
	parts := []string{value}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		parts = append(parts, slices.DeleteFunc(lines, isShort)...)
	}
	return parts
}

// isShort tells of a line of a secret that it may occur anywhere.
func isShort(line string) bool { return len(line) < 16 }

// maxText is the size of the largest profile file.
const maxText = 1 << 20

// Parse returns the profile that text says alone. Its error is one line with
// the number of the line to change.
func Parse(name string, text []byte) (*Profile, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("%w: profile name %.64q %s", fs.ErrInvalid, name, err)
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: profile %s has %d bytes, at most %d", fs.ErrTooLarge, name, len(text), maxText)
	}
	d, err := readTOML(place{layer: ofUser}, text)
	if err != nil {
		return nil, faulty(name, err)
	}
	p, _, err := build(name, []*document{d})
	return p, err
}

// parseKept returns a profile as it was kept, and what it says.
func parseKept(name string, text []byte) (*Profile, *layered, error) {
	d, err := readTOML(place{layer: ofKept}, text)
	if err != nil {
		return nil, nil, faulty(name, err)
	}
	return build(name, []*document{d})
}

// build returns the profile that documents say, and what they say together.
func build(name string, docs []*document) (*Profile, *layered, error) {
	p := &Profile{Name: name, Network: wire.Network{Profile: name}}
	l, err := merge(docs)
	if err == nil {
		err = l.decode(p)
	}
	if err != nil {
		return nil, nil, faulty(name, err)
	}
	return p, l, nil
}

// faulty says in which profile a fault is.
func faulty(name string, err error) error {
	return fmt.Errorf("%w: profile %s, %w", fs.ErrInvalid, name, err)
}
