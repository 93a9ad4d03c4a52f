package vmcp

import (
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/composite"
	"hutch/mcpd/redact"
)

// longest is the most time that anything can be given.
const longest = composite.Duration(24 * time.Hour)

// check says what is wrong with a configuration.
func (c *Config) check() *faults {
	f := &faults{c: c}
	f.oneOf(c.Incoming.Type, []string{"incomingAuth", "type"}, "", "oidc", "local", "anonymous")
	f.backends()
	f.outgoing()
	f.aggregation()
	f.composites()
	f.operational()
	return f
}

func (f *faults) oneOf(word string, path []string, words ...string) {
	if !slices.Contains(words, word) {
		f.add(path, "%.64q: it is one of %s", word, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", "))
	}
}

// few refuses a list or a table that is too long.
func (f *faults) few(n, most int, path ...string) {
	if n > most {
		f.add(path, "%d entries: at most %d", n, most)
	}
}

// server refuses a name that no server can have.
func (f *faults) server(name string, path ...string) bool {
	err := jsonrpc.CheckServer(name)
	if err != nil {
		f.add(path, "%v", err)
	}
	return err == nil
}

func (f *faults) backends() {
	f.few(len(f.c.Backends), maxEntries, "backends")
	seen := make(map[string]bool)
	for i, b := range f.c.Backends {
		here := []string{"backends", strconv.Itoa(i)}
		if f.server(b.Name, at(here, "name")...) && seen[b.Name] {
			f.add(at(here, "name"), "%.64q is there twice", b.Name)
		}
		seen[b.Name] = true
		f.oneOf(b.Transport, at(here, "transport"), "", "sse", "streamable-http")
		f.oneOf(b.Type, at(here, "type"), "", "entry")
		f.web(b.URL, at(here, "url"))
		if p := b.CABundlePath; p != "" && (!path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0)) {
			f.add(at(here, "caBundlePath"), "%.200q: want a path from the root, without ..", p)
		}
	}
}

// web refuses what is no URL of HTTP.
func (f *faults) web(text string, path []string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(text) > maxLong {
		f.add(path, "%.200q: want https://HOST/…, without a user", text)
	}
}

// eachStrategy calls do with every strategy and the path to it.
func (c *Config) eachStrategy(do func(path []string, s Strategy)) {
	if s := c.Outgoing.Default; s != nil {
		do([]string{"outgoingAuth", "default"}, *s)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Outgoing.Backends)) {
		do([]string{"outgoingAuth", "backends", name}, c.Outgoing.Backends[name])
	}
}

func (f *faults) outgoing() {
	f.oneOf(f.c.Outgoing.Source, []string{"outgoingAuth", "source"}, "", "inline", "discovered")
	f.few(len(f.c.Outgoing.Backends), maxEntries, "outgoingAuth", "backends")
	f.c.eachStrategy(func(here []string, s Strategy) {
		switch s.Type {
		case Unauthenticated:
		case HeaderInjection:
			f.header(at(here, "headerInjection"), s.Header)
		case TokenExchange:
			f.exchange(at(here, "tokenExchange"), s.Exchange)
		case "upstream_inject", "aws_sts", "obo", "xaa":
			f.add(at(here, "type"), "hutch does not do %s: it does %s, %s and %s", s.Type, Unauthenticated, HeaderInjection, TokenExchange)
		default:
			f.oneOf(s.Type, at(here, "type"), Unauthenticated, HeaderInjection, TokenExchange)
		}
	})
}

// headerName is what RFC 9110 lets a field be called.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")

// ofTransport are headers that the transport makes itself.
var ofTransport = regexp.MustCompile(`(?i)^(host|connection|content-length|content-type|transfer-encoding|te|trailer|upgrade|keep-alive|accept|proxy-.*|mcp-.*)$`)

func (f *faults) header(here []string, h *Header) {
	switch {
	case h == nil:
		f.add(here, "%s needs it, with headerName and headerValueEnv or headerValue", HeaderInjection)
	case !headerName.MatchString(h.Name):
		f.add(at(here, "headerName"), "%.64q is no name of a header", h.Name)
	case ofTransport.MatchString(h.Name):
		f.add(at(here, "headerName"), "%s cannot be set: the connection makes it", h.Name)
	case (h.Value == "") == (h.Env == ""):
		f.add(here, "want one of headerValue and headerValueEnv")
	case namesByValue(h.Ref()):
		f.add(at(here, "headerValue"), secretAsName)
	case strings.ContainsAny(h.Value+h.Env, "\r\n\x00") || len(h.Value)+len(h.Env) > maxLong:
		f.add(at(here, "headerValue"), "it has a line's end in it, or more than %d bytes", maxLong)
	}
}

func (f *faults) exchange(here []string, x *Exchange) {
	if x == nil {
		f.add(here, "%s needs it, with tokenUrl", TokenExchange)
		return
	}
	f.web(x.TokenURL, at(here, "tokenUrl"))
	if x.ClientSecret != "" && x.ClientSecretEnv != "" {
		f.add(here, "want one of clientSecret and clientSecretEnv")
	}
	if namesByValue(x.SecretRef()) {
		f.add(at(here, "clientSecret"), secretAsName)
	}
	if namesByValue(x.SubjectToken) {
		f.add(at(here, "subjectToken"), secretAsName)
	}
	if strings.ContainsAny(x.SubjectToken, "\r\n\x00") || len(x.SubjectToken) > maxLong {
		f.add(at(here, "subjectToken"), "it has a line's end in it, or more than %d bytes", maxLong)
	}
}

const secretAsName = "it has a secret where the name of one is to be: store it with hutch secret set NAME, and write secret:NAME"

// namesByValue reports whether a reference has a secret, by its look, in place of a name.
func namesByValue(ref string) bool {
	_, name, _ := strings.Cut(ref, ":")
	return isRef(ref) && new(redact.Redactor).Redact(name) != name
}

// format is what a prefix may be beside the name of the workload.
var format = regexp.MustCompile(`^[a-zA-Z0-9_.-]{0,32}$`)

func (f *faults) aggregation() {
	a, here := &f.c.Aggregation, []string{"aggregation"}
	f.oneOf(a.Conflicts, at(here, "conflictResolution"), Prefix, Priority, Manual)
	f.oneOf(a.Visibility, at(here, "defaultToolVisibility"), "", "allow", "deny")
	if p := a.ConflictsConfig.PrefixFormat; !format.MatchString(strings.ReplaceAll(p, workloadWord, "")) {
		f.add(at(here, "conflictResolutionConfig", "prefixFormat"), "%.64q: it is %s, and at most 32 letters, digits, _ . and -", p, workloadWord)
	}
	order := a.ConflictsConfig.PriorityOrder
	f.few(len(order), maxEntries, "aggregation", "conflictResolutionConfig", "priorityOrder")
	if a.Conflicts == Priority && len(order) == 0 {
		f.add(at(here, "conflictResolutionConfig"), "%s needs priorityOrder: the servers, the first that counts first", Priority)
	}
	for i, name := range order {
		if f.server(name, orderPath(i)...) && slices.Index(order, name) < i {
			f.add(orderPath(i), "%.64q is there twice", name)
		}
	}
	f.few(len(a.Tools), maxEntries, "aggregation", "tools")
	seen := make(map[string]bool)
	for i, w := range a.Tools {
		if f.server(w.Workload, toolPath(i, "workload")...) && seen[w.Workload] {
			f.add(toolPath(i, "workload"), "%.64q is there twice", w.Workload)
		}
		seen[w.Workload] = true
		f.filter(i, w)
		f.overrides(i, w)
	}
}

func toolPath(i int, keys ...string) []string {
	return append([]string{"aggregation", "tools", strconv.Itoa(i)}, keys...)
}

func orderPath(i int) []string {
	return []string{"aggregation", "conflictResolutionConfig", "priorityOrder", strconv.Itoa(i)}
}

func (f *faults) filter(i int, w Workload) {
	f.few(len(w.Filter), maxWords, toolPath(i, "filter")...)
	if w.Filter != nil && len(w.Filter) == 0 {
		f.add(toolPath(i, "filter"), "it is empty: leave it out for all tools, or say excludeAll: true for none")
	}
	if slices.Contains(w.Filter, "") {
		f.add(toolPath(i, "filter"), "a tool's name is empty")
	}
}

func (f *faults) overrides(i int, w Workload) {
	f.few(len(w.Overrides), maxEntries, toolPath(i, "overrides")...)
	given := make(map[string]string)
	for _, tool := range slices.Sorted(maps.Keys(w.Overrides)) {
		o, here := w.Overrides[tool], toolPath(i, "overrides", tool)
		switch {
		case tool == "":
			f.add(here, "a tool's name is empty")
		case o.Name == "" && o.Description == "" && o.Annotations == nil:
			f.add(here, "it says nothing: want name, description or annotations")
		case o.Name != "" && !safeName.MatchString(o.Name):
			f.add(at(here, "name"), "%.80q: clients take 1 to %d letters, digits, _ and -", o.Name, maxName)
		case o.Name != "" && given[o.Name] != "":
			f.add(at(here, "name"), "%s is the name of %.64q, too", o.Name, given[o.Name])
		case len(o.Description) > maxLong:
			f.add(at(here, "description"), "%d bytes: at most %d", len(o.Description), maxLong)
		}
		if o.Name != "" {
			given[o.Name] = tool
		}
	}
}

func (f *faults) composites() {
	f.few(len(f.c.CompositeTools), composite.MaxSteps, "compositeTools")
	seen := make(map[string]bool)
	for i, d := range f.c.CompositeTools {
		if seen[d.Name] {
			f.add([]string{"compositeTools", strconv.Itoa(i), "name"}, "%.64q is there twice", d.Name)
		}
		seen[d.Name] = true
		t, err := composite.Compile(&d, nil)
		if err != nil {
			f.add([]string{"compositeTools", strconv.Itoa(i)}, "%v", err)
			continue
		}
		f.c.tools = append(f.c.tools, t)
	}
}

func (f *faults) operational() {
	o, here := &f.c.Operational, []string{"operational"}
	f.oneOf(o.LogLevel, at(here, "logLevel"), "", "debug", "info", "warn", "error")
	f.time(o.Timeouts.Default, 0, at(here, "timeouts", "default"))
	f.time(o.Timeouts.BackendInit, 0, at(here, "timeouts", "backendInit"))
	f.few(len(o.Timeouts.PerWorkload), maxEntries, "operational", "timeouts", "perWorkload")
	for name, d := range o.Timeouts.PerWorkload {
		f.server(name, at(here, "timeouts", "perWorkload", name)...)
		f.time(d, composite.Duration(time.Millisecond), at(here, "timeouts", "perWorkload", name))
	}
	here = at(here, "failureHandling")
	h := &o.Failures
	f.time(h.Interval, composite.Duration(time.Second), at(here, "healthCheckInterval"))
	f.time(h.Timeout, composite.Duration(time.Millisecond), at(here, "healthCheckTimeout"))
	if h.Timeout >= h.Interval && h.Timeout > 0 {
		f.add(at(here, "healthCheckTimeout"), "%v: want less than healthCheckInterval, %v", time.Duration(h.Timeout), time.Duration(h.Interval))
	}
	f.count(h.Threshold, at(here, "unhealthyThreshold"))
	f.oneOf(h.Mode, at(here, "partialFailureMode"), Fail, BestEffort)
	f.count(h.Circuit.Threshold, at(here, "circuitBreaker", "failureThreshold"))
	f.time(h.Circuit.Timeout, composite.Duration(time.Second), at(here, "circuitBreaker", "timeout"))
}

func (f *faults) time(d, least composite.Duration, path []string) {
	if d < least || d > longest {
		f.add(path, "%v: want %v to %v", time.Duration(d), time.Duration(least), time.Duration(longest))
	}
}

func (f *faults) count(n int, path []string) {
	if n < 1 || n > maxEntries {
		f.add(path, "%d: want 1 to %d", n, maxEntries)
	}
}
