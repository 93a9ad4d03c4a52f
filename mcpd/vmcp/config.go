// Package vmcp reads the configuration of a group of MCP servers that is served as
// one, in the YAML of ToolHive's Virtual MCP Server, and decides by it which name
// clients know each tool, prompt and resource by.
//
// Names are decided by configuration and names alone: the order in which servers
// answer changes none, and each name leads to one server. What hutch does in another
// place, or not at all, is kept and said (Notes); a key that nobody knows is refused,
// since a filter that is misspelt would show what it should hide.
package vmcp

import (
	"cmp"
	"time"

	"go.yaml.in/yaml/v3"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/composite"
)

// A Config says how a group is served. Names of workloads are those of its servers.
type Config struct {
	Name  string `yaml:"name"`
	Group string `yaml:"groupRef"`

	Backends       []Backend              `yaml:"backends"`
	Outgoing       Outgoing               `yaml:"outgoingAuth"`
	Aggregation    Aggregation            `yaml:"aggregation"`
	CompositeTools []composite.Definition `yaml:"compositeTools"`
	Operational    Operational            `yaml:"operational"`

	// Kept and said, see notes.
	Incoming           Incoming `yaml:"incomingAuth"`
	Metadata           kept     `yaml:"metadata"`
	CompositeToolRefs  kept     `yaml:"compositeToolRefs"`
	Telemetry          kept     `yaml:"telemetry"`
	Audit              kept     `yaml:"audit"`
	RateLimiting       kept     `yaml:"rateLimiting"`
	PassthroughHeaders kept     `yaml:"passthroughHeaders"`
	SessionStorage     kept     `yaml:"sessionStorage"`
	Optimizer          kept     `yaml:"optimizer"`
	CodeMode           kept     `yaml:"codeMode"`

	tools []*composite.Tool // of CompositeTools
	root  *yaml.Node        // of the document; nil: it was made by Alone
	full  bool              // resources keep the URIs that tell servers apart
	alone string            // the only server, whose names stay as they are
}

// A Backend is a remote server that is no member of the group.
type Backend struct {
	Name         string            `yaml:"name"`
	URL          string            `yaml:"url"`
	Transport    string            `yaml:"transport"` // "sse", "streamable-http"; "": the latter
	Type         string            `yaml:"type"`      // "" or "entry"
	CABundlePath string            `yaml:"caBundlePath"`
	Metadata     map[string]string `yaml:"metadata"`
}

// Incoming says who may connect. It is kept for who exports it; the door decides.
type Incoming struct {
	Type  string `yaml:"type"` // "oidc", "local", "anonymous"
	OIDC  kept   `yaml:"oidc"`
	Authz kept   `yaml:"authz"`
}

// Outgoing says what servers are told of who calls.
type Outgoing struct {
	Source   string              `yaml:"source"` // "inline", "discovered": both mean what is said here
	Default  *Strategy           `yaml:"default"`
	Backends map[string]Strategy `yaml:"backends"`
}

// The types of strategies that hutch does.
const (
	Unauthenticated = "unauthenticated"
	HeaderInjection = "header_injection"
	TokenExchange   = "token_exchange"
)

// A Strategy is one way to tell a server who calls.
type Strategy struct {
	Type     string    `yaml:"type"`
	Header   *Header   `yaml:"headerInjection"` // of HeaderInjection
	Exchange *Exchange `yaml:"tokenExchange"`   // of TokenExchange

	UpstreamInject kept `yaml:"upstreamInject"`
	AWSSTS         kept `yaml:"awsSts"`
	OBO            kept `yaml:"obo"`
	XAA            kept `yaml:"xaa"`
}

// A Header is sent with each request.
type Header struct {
	Name  string `yaml:"headerName"`
	Value string `yaml:"headerValue"`
	Env   string `yaml:"headerValueEnv"`
}

// Ref returns the value, or the reference to it that package secrets resolves.
func (h *Header) Ref() string { return ref(h.Value, h.Env) }

// An Exchange gets a token for a server in exchange for the caller's, or for
// SubjectToken where the caller brings none (RFC 8693). That key is hutch's own.
type Exchange struct {
	TokenURL            string   `yaml:"tokenUrl"`
	ClientID            string   `yaml:"clientId"`
	ClientSecret        string   `yaml:"clientSecret"`
	ClientSecretEnv     string   `yaml:"clientSecretEnv"`
	Audience            string   `yaml:"audience"`
	Scopes              []string `yaml:"scopes"`
	SubjectToken        string   `yaml:"subjectToken"`
	SubjectTokenType    string   `yaml:"subjectTokenType"`
	SubjectProviderName string   `yaml:"subjectProviderName"`
}

// SecretRef returns the client's secret, or the reference to it; "": there is none.
func (x *Exchange) SecretRef() string { return ref(x.ClientSecret, x.ClientSecretEnv) }

func ref(value, env string) string {
	if env != "" {
		return "env:" + env
	}
	return value
}

// The ways to resolve conflicts of names.
const (
	Prefix   = "prefix"   // every name begins with its server's
	Priority = "priority" // the first server that has a name keeps it, the others' tools are dropped
	Manual   = "manual"   // names are as overrides say; what two have, nobody gets
)

// Aggregation says which tools clients know of, and by which names.
type Aggregation struct {
	Conflicts       string         `yaml:"conflictResolution"` // "": Prefix
	ConflictsConfig ConflictConfig `yaml:"conflictResolutionConfig"`
	Tools           []Workload     `yaml:"tools"`
	ExcludeAllTools bool           `yaml:"excludeAllTools"`
	Visibility      string         `yaml:"defaultToolVisibility"` // "deny": only workloads in Tools have any; "" or "allow"
}

// ConflictConfig is what the ways need to know.
type ConflictConfig struct {
	PrefixFormat  string   `yaml:"prefixFormat"` // "": DefaultPrefix
	PriorityOrder []string `yaml:"priorityOrder"`
}

// DefaultPrefix is what names begin with where nothing else is said.
const DefaultPrefix = "{workload}_"

// A Workload says what clients know of the tools of one server.
type Workload struct {
	Workload      string              `yaml:"workload"`
	ToolConfigRef kept                `yaml:"toolConfigRef"`
	Filter        []string            `yaml:"filter"` // nil: all; by their own names, or those that Overrides give
	Overrides     map[string]Override `yaml:"overrides"`
	ExcludeAll    bool                `yaml:"excludeAll"`
}

// An Override replaces what a server says of a tool.
type Override struct {
	Name        string                 `yaml:"name"`
	Description string                 `yaml:"description"`
	Annotations *composite.Annotations `yaml:"annotations"`
}

// Operational says how long servers may take, and what comes of their failures.
type Operational struct {
	LogLevel string   `yaml:"logLevel"`
	Timeouts Timeouts `yaml:"timeouts"`
	Failures Failures `yaml:"failureHandling"`
}

// Timeouts are those of requests to servers; 0: hutch's own.
type Timeouts struct {
	Default     composite.Duration            `yaml:"default"`
	PerWorkload map[string]composite.Duration `yaml:"perWorkload"`
	BackendInit composite.Duration            `yaml:"backendInit"` // to connect and list

	ListChanged kept `yaml:"listChanged"`
}

// Failures says how servers are watched, and what a group is without one. The zero
// value of each has a default.
type Failures struct {
	Interval  composite.Duration `yaml:"healthCheckInterval"` // 30 s
	Threshold int                `yaml:"unhealthyThreshold"`  // 3
	Timeout   composite.Duration `yaml:"healthCheckTimeout"`  // 10 s, or half of that
	Mode      string             `yaml:"partialFailureMode"`  // Fail, or BestEffort
	Circuit   Circuit            `yaml:"circuitBreaker"`

	StatusReportingInterval kept `yaml:"statusReportingInterval"`
}

// What a group is while a server of it cannot be reached.
const (
	BestEffort = "best_effort" // what the others are; also where nothing is said
	Fail       = "fail"        // nothing: lists are refused
)

// A Circuit says when a server that fails is not called for a while.
type Circuit struct {
	Enabled   bool               `yaml:"enabled"`
	Threshold int                `yaml:"failureThreshold"` // failures in a row; 5
	Timeout   composite.Duration `yaml:"timeout"`          // until it is tried again; 60 s, at least 1 s
}

func (c *Config) withDefaults() *Config {
	a, f := &c.Aggregation, &c.Operational.Failures
	a.Conflicts = cmp.Or(a.Conflicts, Prefix)
	a.ConflictsConfig.PrefixFormat = cmp.Or(a.ConflictsConfig.PrefixFormat, DefaultPrefix)
	f.Interval = cmp.Or(f.Interval, composite.Duration(30*time.Second))
	f.Timeout = cmp.Or(f.Timeout, min(composite.Duration(10*time.Second), f.Interval/2))
	f.Threshold = cmp.Or(f.Threshold, 3)
	f.Mode = cmp.Or(f.Mode, BestEffort)
	f.Circuit.Threshold = cmp.Or(f.Circuit.Threshold, 5)
	f.Circuit.Timeout = cmp.Or(f.Circuit.Timeout, composite.Duration(time.Minute))
	return c
}

// Strategy returns how a server is told who calls.
func (c *Config) Strategy(workload string) Strategy {
	if s, ok := c.Outgoing.Backends[workload]; ok {
		return s
	}
	if c.Outgoing.Default != nil {
		return *c.Outgoing.Default
	}
	return Strategy{Type: Unauthenticated}
}

// Timeout returns how long a request to a server may take, 0 if nothing is said.
func (c *Config) Timeout(workload string) time.Duration {
	t := c.Operational.Timeouts
	return time.Duration(cmp.Or(t.PerWorkload[workload], t.Default))
}

// Tools returns the composite tools. Whether there are the tools that they call, they
// find out when they run.
func (c *Config) Tools() []*composite.Tool { return c.tools }

// Safe returns the configuration of a VM by which tools and prompts keep their full names,
// as far as every client takes them.
func Safe() *Config {
	c := (&Config{full: true}).withDefaults()
	c.Aggregation.Conflicts, c.Aggregation.ConflictsConfig.PrefixFormat = Prefix, workloadWord+jsonrpc.Separator
	return c
}

// Alone returns the configuration of a server that is served by itself: tools,
// prompts and resources have its own names, but for what the overrides say.
func Alone(server string, filter []string, overrides map[string]Override) *Config {
	c := &Config{alone: server}
	c.Aggregation.Tools = []Workload{{Workload: server, Filter: filter, Overrides: overrides}}
	return c.withDefaults()
}
