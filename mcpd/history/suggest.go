// Package history makes use of what a ledger holds of the past: the text of a
// profile that allows what was used, and what another profile would decide
// otherwise. Tables are read a line at a time, and what is kept of them is
// bounded, as a guest can fill them with what it likes.
package history

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/wire"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// A Ledger calls do with each line of a table, the oldest first: DB.Lines.
type Ledger interface {
	Lines(ctx context.Context, table string, do func(line []byte) error) error
}

// A usage is what was used.
type usage struct {
	rows     int
	methods  uses
	named    map[string]*uses // by method
	hosts    uses
	folders  map[string]*uses // by operation
	commands uses             // each with its first argument
	observed map[uint64]bool  // calls that a rule was against, and the policy let pass
}

// Suggest returns the text of a profile, to be saved as a drop-in, that allows
// what the ledger of a VM holds as used and allowed, and no more of its kind.
func Suggest(ctx context.Context, db Ledger, vm string) (string, error) {
	u := &usage{named: map[string]*uses{}, folders: map[string]*uses{}, observed: map[uint64]bool{}}
	for _, t := range []struct {
		name string
		add  func(*usage, []byte)
	}{
		{ledger.Calls, (*usage).addCall},
		{ledger.Net, (*usage).addRequest},
		{ledger.Files, (*usage).addFile},
		{ledger.Execs, (*usage).addCommand},
	} {
		err := db.Lines(ctx, t.name, func(line []byte) error {
			u.rows++
			t.add(u, line)
			return ctx.Err()
		})
		if err != nil {
			return "", err
		}
	}
	return u.text(vm), nil
}

func (u *usage) addCall(line []byte) {
	var r callRow
	if json.Unmarshal(line, &r) != nil || r.Direction == ledger.FromServer {
		return
	}
	if !r.isUse() {
		if r.Action == policy.Observe && len(u.observed) < maxRan {
			u.observed[r.ID] = true
		}
		return
	}
	if r.Tool == "" {
		u.methods.add(r.Method, r.Time)
		return
	}
	if isWhole(r.Method) {
		of(u.named, r.Method).add(r.Tool, r.Time)
	}
}

// isUse says whether the request was allowed, or would be refused only because
// no rule allows it, of a policy that observes.
func (r *callRow) isUse() bool {
	switch r.Action {
	case policy.Allow, policy.Rewrite:
		return true
	case policy.Observe:
		return r.Rule == policy.RuleDefault
	}
	return false
}

func (u *usage) addRequest(line []byte) {
	var r netRow
	if json.Unmarshal(line, &r) != nil || r.Decision != wire.Allowed || strings.HasPrefix(r.Reason, Observed) {
		return
	}
	name := r.Host
	if r.Port != 80 && r.Port != 443 {
		name = hostPort(r.Host, r.Port)
	}
	if _, err := guard.ParsePattern(name); err != nil {
		u.hosts.left++
		return
	}
	u.hosts.add(name, r.Time)
}

// hostPort is net.JoinHostPort, for a host that may be an address.
func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

func (u *usage) addFile(line []byte) {
	var r fileRow
	if json.Unmarshal(line, &r) != nil || r.Outcome != ledger.OK || !isWhole(r.Operation) || u.observed[r.Call] {
		return
	}
	folder := r.Path
	if !slices.Contains([]string{"list", "grep", "glob"}, r.Operation) { // which are about folders
		folder = path.Dir(r.Path)
	}
	of(u.folders, r.Operation).add(folder, r.Time)
}

// of returns the uses of one of a few kinds: methods and operations are
// hutch's own words where they were allowed.
func of(kinds map[string]*uses, name string) *uses {
	if kinds[name] == nil {
		kinds[name] = &uses{}
	}
	return kinds[name]
}

// The rules go after all others of the profile.
const (
	priorityUsed = policy.PriorityHighest - 1
	priorityRest = policy.PriorityHighest
)

func (u *usage) text(vm string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What %q used and was allowed, as %d records of it say.\n", vm, u.rows)
	fmt.Fprintf(&b, "# Save it as a drop-in, NAME.d/used.toml: what was not used is then blocked,\n# if no rule of a lower priority allows it.\n")

	if hosts := u.hosts.lines(strconv.Quote, "#"); len(hosts) > 0 {
		b.WriteString("\n[network]\nallow = [\n" + strings.Join(hosts, "") + "]\n")
	}
	b.WriteString(note(u.hosts.left))
	u.writeCommands(&b)

	conditions, left := u.methods.conditions(celString, "mcp.request.name == \"\" && mcp.request.method in [\n", "]"), u.methods.left
	for _, method := range slices.Sorted(maps.Keys(u.named)) {
		begin := fmt.Sprintf("mcp.request.method == %s && mcp.request.name in [\n", celString(method))
		conditions = append(conditions, u.named[method].conditions(celString, begin, "]")...)
		left += u.named[method].left
	}
	writeRules(&b, "mcp", policy.OnRequest, conditions, "!(mcp.request.method in ["+celStrings(policy.Unasked())+"])", left)

	conditions, left = nil, 0
	for _, operation := range slices.Sorted(maps.Keys(u.folders)) {
		begin := fmt.Sprintf("file.operation == %s && [\n", celString(operation))
		conditions = append(conditions, u.folders[operation].conditions(celString, begin, `].exists(f, file.path == f || file.path.startsWith(f + "/"))`)...)
		left += u.folders[operation].left
	}
	writeRules(&b, "file", policy.OnFile, conditions, "", left)

	conditions = u.commands.conditions(celWords, "(exec.args.size() == 0 ? [exec.command] : [exec.command, exec.args[0]]) in [\n", "]")
	writeRules(&b, "exec", policy.OnExec, conditions, "", u.commands.left)
	return b.String()
}

// celStrings returns texts as the elements of a list of CEL.
func celStrings(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = celString(text)
	}
	return strings.Join(quoted, ", ")
}

// writeRules writes a rule for each condition, which allows what it holds for,
// and one that blocks everything else for which the condition rest holds; "":
// everything.
func writeRules(b *strings.Builder, name, on string, conditions []string, rest string, left int) {
	b.WriteString("\n" + note(left))
	for i, condition := range conditions {
		fmt.Fprintf(b, "[security.rules.used.%s-%d]\non = %q\ndecision = \"allow\"\npriority = %d\nif = '''\n%s\n'''\n\n",
			name, i+1, on, priorityUsed, condition)
	}
	fmt.Fprintf(b, "[security.rules.used.%s-rest]\non = %q\ndecision = \"block\"\npriority = %d\nreason = \"it was not used when the profile was made\"\n",
		name, on, priorityRest)
	if rest != "" {
		fmt.Fprintf(b, "if = '''%s'''\n", rest)
	}
}

// The rows of tables, as much of them as is needed. What is null is empty.
type (
	callRow struct {
		ID       uint64    `json:"id"`
		Time     time.Time `json:"timestamp"`
		Server   string    `json:"server_name"`
		Method   string    `json:"method"`
		Tool     string    `json:"tool_name"`
		Decision string    `json:"decision"`
		Request  string    `json:"request_preview"`
		Response string    `json:"response_preview"`
		Error    string    `json:"error_message"`
		Process  string    `json:"process_name"`
		Action   string    `json:"policy_action"`
		Rule     string    `json:"policy_rule"`

		Direction string `json:"direction"`
		Principal string `json:"principal"`
	}
	netRow struct {
		ID       uint64    `json:"id"`
		Time     time.Time `json:"timestamp"`
		Host     string    `json:"host"`
		Port     int       `json:"port"`
		Method   string    `json:"method"`
		Path     string    `json:"path"`
		Decision string    `json:"decision"`
		Rule     string    `json:"rule"`
		Reason   string    `json:"reason"`
		Process  string    `json:"process_name"`
	}
	fileRow struct {
		ID        uint64    `json:"id"`
		Time      time.Time `json:"timestamp"`
		Operation string    `json:"operation"`
		Path      string    `json:"path"`
		Bytes     int64     `json:"bytes"`
		Outcome   string    `json:"outcome"`
		Source    string    `json:"source"`
		Rule      string    `json:"policy_rule"`
		Process   string    `json:"process_name"`
		Call      uint64    `json:"mcp_call_id"`
	}
)
