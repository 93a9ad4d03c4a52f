package history

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/mcpd/workspace"
)

// A Profile is what a past is replayed with.
type Profile struct {
	Name    string
	Policy  *policy.Policy
	Network wire.Network
	Cmd     dispatch.Config
}

// maxReplay is how many bytes of lines are given.
const maxReplay = 4 << 20

// unknown stands where the records do not say enough to decide again.
const unknown = "unknown"

// A difference is a line: a record that would be decided otherwise.
type difference struct {
	Table  string    `json:"table"`
	ID     uint64    `json:"id"`
	Time   time.Time `json:"timestamp"`
	What   string    `json:"what"`
	Then   string    `json:"then"`
	ByThen string    `json:"then_rule,omitempty"`
	Now    string    `json:"now"`
	Rule   string    `json:"rule,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// A replay decides records again.
type replay struct {
	vm      string
	profile Profile
	hosts   guard.Hosts
	out     strings.Builder
	more    int               // differences for which there was no room
	ran     map[uint64]string // by which rules calls of cmd.run passed, as many as maxRan
}

// maxRan is more calls than are likely to have been asked about.
const maxRan = 10000

// Replay tells which recorded requests of a VM a profile would decide otherwise,
// a JSON line each. Nothing is done and nothing is counted.
func Replay(ctx context.Context, db Ledger, vm string, p Profile) (string, error) {
	hosts, err := guard.ParseHosts(p.Network.Allow, p.Network.Block)
	if err != nil {
		return "", fmt.Errorf("%w: network of profile %s: %w", fs.ErrInvalid, p.Name, err)
	}
	r := &replay{vm: vm, profile: p, hosts: hosts, ran: map[uint64]string{}}
	for _, t := range []struct {
		name   string
		decide func(*replay, []byte) *difference
	}{
		{ledger.Calls, (*replay).call},
		{ledger.Net, (*replay).request},
		{ledger.Files, (*replay).file},
		{ledger.Execs, (*replay).command},
	} {
		err := db.Lines(ctx, t.name, func(line []byte) error {
			if d := t.decide(r, line); d != nil && !d.same() {
				d.Table = t.name
				r.tell(d)
			}
			return ctx.Err()
		})
		if err != nil {
			return "", err
		}
	}
	if r.more > 0 {
		fmt.Fprintf(&r.out, `{"more":%d}`+"\n", r.more)
	}
	return r.out.String(), nil
}

func (r *replay) tell(d *difference) {
	line, err := fs.MarshalLine(d)
	if err != nil || r.out.Len()+len(line) > maxReplay {
		r.more++
		return
	}
	r.out.Write(append(line, '\n'))
}

// same reports whether nothing has changed. What a person was asked about would be
// asked again by the same rule, which is no change.
func (d *difference) same() bool {
	return d.Then == d.Now || d.Now == policy.Ask && d.ByThen == d.Rule
}

// decided has the difference say what is decided now.
func (d *difference) decided(now policy.Decision) *difference {
	d.Now, d.Rule, d.Reason = now.Action, now.Rule, now.Reason
	if now.Would != "" {
		d.Now = policy.Observe
	}
	return d
}

// passes says whether what was asked was done, or would be.
func passes(word string) bool { return word != policy.Block && word != policy.Ask && word != unknown }

// notOfPolicies are the rules of refusals that no policy can change, or that tell of
// a moment that is gone.
var notOfPolicies = []string{policy.RuleUnregistered, policy.RulePin, "traversal", "cwd", "security.envelope", "tls", "private", "request"}

func (r *replay) call(line []byte) *difference {
	var row callRow
	if json.Unmarshal(line, &row) != nil || row.Action == "" || slices.Contains(notOfPolicies, row.Rule) {
		return nil
	}
	e, whole := r.event(&row)
	d := &difference{ID: row.ID, Time: row.Time, What: strings.TrimSpace(row.Method + " " + row.Tool), Then: row.Action, ByThen: row.Rule}
	if e.On == policy.OnAsk {
		d.What = e.What()
	}
	if row.Tool == dispatch.Tool && passes(row.Action) && row.Rule != "" && len(r.ran) < maxRan {
		r.ran[row.ID] = row.Rule
	}
	if !whole {
		d.Now, d.Reason = unknown, "its arguments were cut or had secrets when they were recorded"
		return d
	}
	p := r.profile.Policy
	d.decided(p.Decide(e))
	if d.Then == policy.Rewrite && d.Now == policy.Allow && p.Has(d.ByThen) { // what was recorded is what it was rewritten to
		d.Now, d.Rule = policy.Rewrite, d.ByThen
	}
	if !passes(d.Now) {
		return d
	}
	if !passes(d.Then) && e.Name == dispatch.Tool {
		if d = r.refused(d, e); d == nil || !passes(d.Now) {
			return d
		}
	}
	if !passes(d.Then) && (p.About(policy.OnResponse) || e.Server == workspace.Server && p.About(policy.OnFile)) {
		d.Now, d.Rule, d.Reason = unknown, "", "rules about results or files may decide it, and the records do not have these"
		return d
	}
	if passes(d.Then) && p.About(policy.OnResponse) {
		r.answer(d, e, row)
	}
	return d
}

// event returns what the policy is told of a request, and whether the records have
// all of it.
func (r *replay) event(row *callRow) (e *policy.Event, whole bool) {
	e = &policy.Event{
		On: policy.OnRequest, VM: r.vm, Profile: r.profile.Name, Process: row.Process, Principal: row.Principal, Server: row.Server,
		Method: row.Method, Name: row.Tool, Tool: row.Tool, Known: true, Trial: true,
	}
	if e.Server == "builtin" { // as the ledger calls it
		e.Server = wire.Local
	}
	if row.Direction == ledger.FromServer {
		e.On, e.Args = policy.OnAsk, json.RawMessage(row.Request)
		return e, row.Request == "" || isRecorded(row.Request)
	}
	if _, own, ok := jsonrpc.SplitName(row.Tool); ok && e.Server != workspace.Server {
		e.Tool = own
	}
	e.Args, whole = arguments(row.Request)
	return e, whole
}

// answer has what came of the call decided, too.
func (r *replay) answer(d *difference, e *policy.Event, row callRow) {
	if row.Response == "" { // there was none
		return
	}
	if !isRecorded(row.Response) {
		d.Now, d.Rule, d.Reason = unknown, "", "its result was cut or had secrets when it was recorded"
		return
	}
	e.On, e.Answer = policy.OnResponse, json.RawMessage(row.Response)
	e.Failed = row.Error != "" || string(rawjson.Get(e.Answer, "isError")) == "true"
	if now := r.profile.Policy.Decide(e); now.Action != policy.Allow || now.Would != "" {
		d.decided(now)
	}
}

// arguments returns those of a request's params as they were recorded, if they
// are all there.
func arguments(params string) (args json.RawMessage, whole bool) {
	if params == "" {
		return nil, true
	}
	if !isRecorded(params) {
		return nil, false
	}
	return json.RawMessage(rawjson.Get([]byte(params), "arguments")), true
}

// isRecorded says whether a preview is all of what it is of.
func isRecorded(preview string) bool {
	return !strings.Contains(preview, "[redacted]") && !strings.ContainsRune(preview, '\ufffd') && json.Valid([]byte(preview))
}

func (r *replay) request(line []byte) *difference {
	var row netRow
	if json.Unmarshal(line, &row) != nil || slices.Contains(notOfPolicies, row.Rule) {
		return nil
	}
	d := &difference{ID: row.ID, Time: row.Time, What: row.Method + " " + hostPort(row.Host, row.Port) + row.Path, Then: policy.Allow, ByThen: row.Rule}
	switch {
	case row.Decision == wire.Denied:
		d.Then = policy.Block
	case strings.HasPrefix(row.Reason, Observed):
		d.Then = policy.Observe
	}
	rule, _, allowed := r.hosts.Decide(row.Host, uint16(row.Port))
	if !allowed {
		return d.decided(policy.Decision{Action: policy.Block, Rule: rule, Reason: "network of the profile " + r.profile.Name + " does not allow it"})
	}
	if !r.profile.Policy.About(policy.OnHTTP) {
		return d.decided(policy.Decision{Action: policy.Allow, Rule: rule})
	}
	e, err := Request(wire.NetEvent{Method: row.Method, Host: row.Host, Port: uint16(row.Port), Path: row.Path, Process: row.Process})
	if err != nil {
		d.Now, d.Reason = unknown, "its path is not known whole"
		return d
	}
	e.VM, e.Profile, e.Trial = r.vm, r.profile.Name, true
	return d.decided(r.profile.Policy.Decide(e))
}

// Observed is what the reason of a request to the proxy begins with that passed
// only because the policy observes.
const Observed = "only observed, would be "

// Request returns what the policy is told of a request to the proxy. Its error
// says why the request cannot be decided.
func Request(e wire.NetEvent) (*policy.Event, error) {
	path, err := guard.Path(e.Path)
	if err != nil {
		return nil, err
	}
	r := &policy.Event{
		On: policy.OnHTTP, Process: e.Process, Trace: e.Trace, Method: e.Method, Host: e.Host, Port: int(e.Port), Path: path, Scheme: "http",
	}
	if e.Method == http.MethodConnect { // there is TLS in it
		r.Scheme = "https"
	}
	return r, nil
}

// file decides again what was done to a file. What was refused is in the line
// of its call.
func (r *replay) file(line []byte) *difference {
	var row fileRow
	if json.Unmarshal(line, &row) != nil || row.Outcome == "denied" {
		return nil
	}
	d := &difference{ID: row.ID, Time: row.Time, What: row.Operation + " " + row.Path, Then: policy.Allow, ByThen: row.Rule}
	if len(row.Path) > maxName && strings.Contains(row.Path, "… [cut, ") {
		d.Now, d.Reason = unknown, "its path is not known whole"
		return d
	}
	return d.decided(r.profile.Policy.Decide(&policy.Event{
		On: policy.OnFile, VM: r.vm, Profile: r.profile.Name, Process: row.Process, Operation: row.Operation, Path: row.Path,
		Bytes: row.Bytes, Server: workspace.Server, Tool: row.Source, Name: row.Source, Method: "tools/call", Known: true, Trial: true,
	}))
}
