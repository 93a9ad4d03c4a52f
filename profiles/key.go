package profiles

import (
	"slices"
	"strings"
	"time"

	"hutch/mcpd/policy"
)

// A Key is a row of the table of all that profiles and configs can say.
type Key struct {
	Name     string // with the tables of a profile that it is in, as http.timeout
	Min, Max string // as values are written; "": there is none
	Default  string // of a key that a config can say
	In       Where
	Words    []string // that it can say; nil: others than words
	kind     kind
	same     string // the key that says the same
	field    func(target) any
}

// Where tells where a key can be said.
type Where uint8

// The places for keys. A key of both holds as the VM's config says, or else as
// its profile does.
const (
	InProfile Where = 1 << iota
	InConfig
	InCorp // in corp's files alone
	both   = InProfile | InConfig
)

// A target has the fields that keys set.
type target struct {
	c *Config
	p *Profile
	s *Server
	r *policy.Rule
	d *directive
	h *head

	capability *policy.Capability
}

// What the names of the keys of servers, rules and capabilities begin with.
const (
	ofServer = "mcpServers.NAME."
	ofRule   = "security.rules.FAMILY.NAME."
	ofChange = "directive."

	ofServerRule = ofServer + "hutch.rules.NAME."

	ofCapability = "security.capabilities.NAME."
)

// Keys are all keys, in the order of a config's text.
var Keys = withAliases(append([]Key{
	{Name: "image", In: both, kind: isName, Default: "host", field: func(t target) any { return &t.c.Image }},
	{Name: "profile", In: InConfig, kind: isName, Default: Default, field: func(t target) any { return &t.c.Profile }},
	{Name: "driver", In: both, kind: isName, field: func(t target) any { return &t.c.Driver }},
	{Name: "kernel", In: both, kind: isPath, field: func(t target) any { return &t.c.Kernel }},
	{Name: "hostname", In: InConfig, kind: isHostname, field: func(t target) any { return &t.c.Hostname }},
	{Name: "ram", In: both, kind: isSize, Min: "64MiB", field: func(t target) any { return &t.c.RAM }},
	{Name: "cpus", In: both, kind: isNumber, Min: "0.05", Max: "1024", field: func(t target) any { return &t.c.CPUs }},
	{Name: "pids", In: both, kind: isCount, Min: "16", Max: "4194304", Default: "512", field: func(t target) any { return &t.c.PIDs }},
	{Name: "disk", In: both, kind: isSize, Min: "1MiB", field: func(t target) any { return &t.c.Disk }},
	{Name: "records", In: both, kind: isSize, Min: "4MiB", Default: "256MiB", field: func(t target) any { return &t.c.Records }},
	{Name: "idle", In: both, kind: isTime, Min: "1s", field: func(t target) any { return &t.c.Idle }},
	{Name: "ttl", In: both, kind: isTime, Min: "1s", field: func(t target) any { return &t.c.TTL }},
	{Name: "net", In: both, kind: isNet, Default: NetNone, field: func(t target) any { return &t.c.Net }},
	{Name: "mount", In: InConfig, kind: isMounts, field: func(t target) any { return &t.c.Mounts }},
	{Name: "snap", In: InConfig, kind: isRing, field: func(t target) any { return &t.c.Snap }},
	{Name: "undo", In: both, kind: isUndo, Default: UndoNone, field: func(t target) any { return &t.c.Undo }},
	{Name: "undo_keep", In: both, kind: isCount, Min: "1", Max: "1000", Default: "20", field: func(t target) any { return &t.c.UndoKeep }},

	{Name: "env", In: InProfile, kind: isVariables, field: func(t target) any { return &t.p.Env }},
	{Name: "http.allow", In: InProfile, kind: isHosts, field: func(t target) any { return &t.p.HTTP.Allow }},
	{Name: "http.max_bytes", In: InProfile, kind: isSize, Min: "1", field: func(t target) any { return &t.p.HTTP.MaxBytes }},
	{Name: "http.timeout", In: InProfile, kind: isTime, Min: "1ms", field: func(t target) any { return &t.p.HTTP.Timeout }},
	{Name: "network.allow", In: InProfile, kind: isPatterns, field: func(t target) any { return &t.p.Network.Allow }},
	{Name: "network.block", In: InProfile, kind: isPatterns, field: func(t target) any { return &t.p.Network.Block }},
	{Name: "network.private", In: InProfile, kind: isHosts, field: func(t target) any { return &t.p.Network.Private }},
	{Name: "network.max_bytes", In: InProfile, kind: isSize, Min: "1", field: func(t target) any { return &t.p.Network.MaxBytes }},
	{Name: "network.timeout", In: InProfile, kind: isTime, Min: "1ms", field: func(t target) any { return (*time.Duration)(&t.p.Network.Timeout) }},
	{Name: "cmd.enabled", In: InProfile, kind: isFlag, field: func(t target) any { return &t.p.Commands.Enabled }},
	{Name: "cmd.allow", In: InProfile, kind: isLists, field: func(t target) any { return &t.p.Security.Commands }},
	{Name: "cmd.timeout", In: InProfile, kind: isTime, Min: "1s", field: func(t target) any { return &t.p.Commands.Timeout }},
	{Name: "cmd.max_output", In: InProfile, kind: isSize, Min: "1KiB", field: func(t target) any { return &t.p.Commands.MaxOutput }},
	{Name: "cmd.max_concurrent", In: InProfile, kind: isCount, Min: "1", Max: "1000", field: func(t target) any { return &t.p.Commands.MaxConcurrent }},
	{Name: "cmd.env_deny", In: InProfile, kind: isPrefixes, field: func(t target) any { return &t.p.Commands.Deny }},

	{Name: "storage.provider", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Provider }},
	{Name: "storage.quota", In: InProfile, kind: isSize, Min: "1", field: func(t target) any { return &t.p.Storage.Bucket.Quota }},
	{Name: "storage.s3.endpoint", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Bucket.Endpoint }},
	{Name: "storage.s3.bucket", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Bucket.Name }},
	{Name: "storage.s3.prefix", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Bucket.Prefix }},
	{Name: "storage.s3.region", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Bucket.Region }},
	{Name: "storage.s3.access_key", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Bucket.AccessKey }},
	{Name: "storage.s3.secret_key", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Storage.Bucket.SecretKey }},

	{Name: "mcp.max_pending", In: InProfile, kind: isSize, Min: "2MiB", field: func(t target) any { return &t.p.MaxPending }},
	{Name: "mcp.files", In: InProfile, kind: isText, Words: []string{"fs", "file", AllFiles}, field: func(t target) any { return &t.p.Files }},
	{Name: "mcp.safe_names", In: InProfile, kind: isFlag, field: func(t target) any { return &t.p.SafeNames }},
	{Name: "mcp.max_request", In: InProfile, kind: isSize, Min: "4KiB", Max: "64MiB", field: func(t target) any { return &t.p.Limits.MaxRequest }},
	{Name: "mcp.max_result", In: InProfile, kind: isSize, Min: "4KiB", Max: "64MiB", field: func(t target) any { return &t.p.Limits.MaxResult }},
	{Name: "mcp.max_depth", In: InProfile, kind: isCount, Min: "8", Max: "512", field: func(t target) any { return &t.p.Limits.MaxDepth }},

	{Name: "security.default", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Security.Default }},
	{Name: "security.mode", In: InProfile, kind: isText, field: func(t target) any { return &t.p.Security.Mode }},
	{Name: "security.hide", In: InProfile, kind: isText, Words: []string{HideCredentials, HideKnown, HideNothing}, field: func(t target) any { return &t.p.Hide }},
	{Name: "security.ask_timeout", In: InProfile, kind: isTime, Min: "1s", field: func(t target) any { return &t.p.Security.AskTime }},

	{Name: "security.deny", In: InProfile, kind: isTexts, field: func(t target) any { return &t.p.Security.Deny }},
	{Name: ofCapability + "tools", In: InProfile, kind: isTexts, field: func(t target) any { return &t.capability.Tools }},
	{Name: ofCapability + "paths", In: InProfile, kind: isTexts, field: func(t target) any { return &t.capability.Paths }},
	{Name: ofCapability + "domains", In: InProfile, kind: isTexts, field: func(t target) any { return &t.capability.Domains }},
	{Name: ofCapability + "commands", In: InProfile, kind: isTexts, field: func(t target) any { return &t.capability.Commands }},
	{Name: ofCapability + "subcommands", In: InProfile, kind: isLists, field: func(t target) any { return &t.capability.Subcommands }},
	{Name: ofCapability + "rate", In: InProfile, kind: isText, field: func(t target) any { return &t.capability.Rate }},
	{Name: ofCapability + "max_response", In: InProfile, kind: isSize, Min: "1", field: func(t target) any { return &t.capability.MaxResponse }},
	{Name: ofCapability + "max_concurrent", In: InProfile, kind: isCount, Min: "1", Max: "10000", field: func(t target) any { return &t.capability.MaxConcurrent }},

	{Name: "security.cedar.policies", In: InProfile, kind: isLinesTable, field: func(t target) any { return &t.p.Security.Cedar.Policies }},
	{Name: "security.cedar.entities", In: InProfile, kind: isLines, field: func(t target) any { return &t.p.Security.Cedar.Entities }},

	{Name: ofRule + "on", In: InProfile, kind: isText, field: func(t target) any { return &t.r.On }},
	{Name: ofRule + "if", In: InProfile, kind: isLines, field: func(t target) any { return &t.r.If }},
	{Name: ofRule + "decision", In: InProfile, kind: isText, field: func(t target) any { return &t.r.Decision }},
	{Name: ofRule + "priority", In: InProfile, kind: isCount, Min: "-1000", Max: "999", field: func(t target) any { return &t.r.Priority }},
	{Name: ofRule + "answers", In: InProfile, kind: isText, field: func(t target) any { return &t.r.Answers }},
	{Name: ofRule + "set", In: InProfile, kind: isTable, field: func(t target) any { return &t.r.Set }},
	{Name: ofRule + "remove", In: InProfile, kind: isTexts, field: func(t target) any { return &t.r.Remove }},
	{Name: ofRule + "redact", In: InProfile, kind: isTexts, field: func(t target) any { return &t.r.Redact }},
	{Name: ofRule + "match", In: InProfile, kind: isText, field: func(t target) any { return &t.r.Match }},
	{Name: ofRule + "reason", In: InProfile, kind: isText, field: func(t target) any { return &t.r.Reason }},

	{Name: "security.privileged", In: InProfile, kind: isFlag, field: func(t target) any { return &t.p.Privileged }},

	{Name: "security.envelope.required", In: InProfile, kind: isFlag, field: func(t target) any { return &t.p.Security.Sealed.Required }},
	{Name: "security.envelope.lifetime", In: InProfile, kind: isTime, Min: "1m", field: func(t target) any { return &t.p.Security.Sealed.Life }},

	{Name: ofServer + "command", In: InProfile, kind: isText, field: func(t target) any { return &t.s.Command }},
	{Name: ofServer + "args", In: InProfile, kind: isTexts, field: func(t target) any { return &t.s.Args }},
	{Name: ofServer + "env", In: InProfile, kind: isVariables, field: func(t target) any { return &t.s.Env }},
	{Name: ofServer + "dir", In: InProfile, kind: isPath, field: func(t target) any { return &t.s.Dir }},
	{Name: ofServer + "cwd", same: ofServer + "dir"},
	{Name: ofServer + "server", In: InProfile, kind: isText, field: func(t target) any { return &t.s.Session }},
	{Name: ofServer + "url", In: InProfile, kind: isText, field: func(t target) any { return &t.s.URL }},
	{Name: ofServer + "type", In: InProfile, kind: isText, field: func(t target) any { return &t.s.Type }},
	{Name: ofServer + "headers", In: InProfile, kind: isHeaders, field: func(t target) any { return &t.s.Headers }},
	{Name: ofServer + "bearer_token", In: InProfile, kind: isText, field: func(t target) any { return &t.s.BearerToken }},
	{Name: ofServer + "bearerToken", same: ofServer + "bearer_token"},
	{Name: "extends", In: InProfile, kind: isName, field: func(t target) any { return &t.p.Extends }},
	{Name: "editable", In: InProfile, kind: isSections, field: func(t target) any { return &t.p.Editable }},
	{Name: "import.from", In: InProfile, kind: isClients, field: func(t target) any { return &t.p.Import }},
	{Name: "serial", In: InCorp, kind: isCount, Min: "0", Max: "1000000000", field: func(t target) any { return &t.h.serial }},
	{Name: "expires", In: InCorp, kind: isText, field: func(t target) any { return &t.h.expires }},
	{Name: ofChange + "operation", In: InCorp, kind: isText, field: func(t target) any { return &t.d.operation }},
	{Name: ofChange + "path", In: InCorp, kind: isText, field: func(t target) any { return &t.d.said }},
	{Name: ofChange + "value", In: InCorp, kind: isAny, field: func(t target) any { return &t.d.value }},
	{Name: ofChange + "reason", In: InCorp, kind: isText, field: func(t target) any { return &t.d.reason }},
}, extra...))

// extra are the keys of servers that other programs do not have. They may also
// stand in a table of their own.
var extra = []Key{
	{Name: ofServer + "enabled", In: InProfile, kind: isFlag, field: func(t target) any { return &t.s.Enabled }},
	{Name: ofServer + "editable", In: InProfile, kind: isFlag, field: func(t target) any { return new(bool) }},
	{Name: ofServer + "allowed_tools", In: InProfile, kind: isTools, field: func(t target) any { return &t.s.Allowed }},
	{Name: ofServer + "blocked_tools", In: InProfile, kind: isTools, field: func(t target) any { return &t.s.Blocked }},
	{Name: ofServer + "pin", In: InProfile, kind: isPin, field: func(t target) any { return &t.s.Pin }},
	{Name: ofServer + "idle_timeout", In: InProfile, kind: isTime, Min: "1ms", field: func(t target) any { return (*time.Duration)(&t.s.IdleTimeout) }},
	{Name: ofServer + "connect_timeout", In: InProfile, kind: isTime, Min: "1ms", field: func(t target) any { return (*time.Duration)(&t.s.ConnectTimeout) }},
	{Name: ofServer + "call_timeout", In: InProfile, kind: isTime, Min: "1ms", field: func(t target) any { return (*time.Duration)(&t.s.CallTimeout) }},
	{Name: ofServer + "sandbox", In: InProfile, kind: isFlag, field: func(t target) any { return &t.s.Sandboxed }},
	{Name: ofServer + "run_as", In: InProfile, kind: isName, field: func(t target) any { return &t.s.RunAs }},
	{Name: ofServer + "image", In: InProfile, kind: isText, field: func(t target) any { return &t.s.Image }},
	{Name: ofServer + "ram", In: InProfile, kind: isSize, Min: "64MiB", field: func(t target) any { return &t.s.RAM }},
	{Name: ofServer + "disk", In: InProfile, kind: isSize, Min: "1MiB", field: func(t target) any { return &t.s.Disk }},
	{Name: ofServer + "shared", In: InProfile, kind: isFlag, field: func(t target) any { return &t.s.OneForAll }},
	{Name: ofServer + "permissions", In: InProfile, kind: isText, field: func(t target) any { return &t.s.Permissions }},
	{Name: ofServer + "read", In: InProfile, kind: isTexts, field: func(t target) any { return &t.s.Read }},
	{Name: ofServer + "write", In: InProfile, kind: isTexts, field: func(t target) any { return &t.s.Write }},
	{Name: ofServer + "allow", In: InProfile, kind: isPatterns, field: func(t target) any { return &t.s.Reach }},
}

// withAliases adds the keys of servers' own tables to keys, and has all that
// say the same as another be as that one is.
func withAliases(keys []Key) []Key {
	keys = append(keys, Key{Name: ofServer + "disabled", same: ofServer + "enabled", kind: isNoFlag})
	for _, table := range []string{"hutch.", "capsem."} {
		for _, k := range extra {
			keys = append(keys, Key{Name: ofServer + table + strings.TrimPrefix(k.Name, ofServer), same: k.Name})
		}
	}
	for _, k := range keys {
		if name, ok := strings.CutPrefix(k.Name, ofRule); ok {
			k.Name = ofServerRule + name
			keys = append(keys, k)
		}
	}
	for i, k := range keys {
		if k.same == "" {
			continue
		}
		o := keys[slices.IndexFunc(keys, func(o Key) bool { return o.Name == k.same })]
		o.Name, o.same = k.Name, k.same
		if k.kind != isText {
			o.kind = k.kind
		}
		keys[i] = o
	}
	return keys
}

// configKeys are those that a config can say.
func configKeys(yield func(*Key) bool) {
	for i := range Keys {
		if k := &Keys[i]; k.In&InConfig != 0 && !yield(k) {
			return
		}
	}
}

// in says whether the key can be said there; a nil key can.
func (k *Key) in(where Where) bool { return k == nil || k.In&where != 0 }

// FindKey returns the key called name, nil if there is none.
func FindKey(name string) *Key {
	for i := range Keys {
		if Keys[i].Name == name {
			return &Keys[i]
		}
	}
	return nil
}

// children returns the keys and tables that can stand in a table of a profile,
// whose name ends with a dot, or in the profile itself.
func children(table string) (names []string) {
	for _, k := range Keys {
		rest, ok := strings.CutPrefix(k.Name, table)
		name, _, _ := strings.Cut(rest, ".")
		if ok && k.In&(InProfile|InCorp) != 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
