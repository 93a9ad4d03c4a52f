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
	"hutch/fs"
	"hutch/mcpd/dispatch"
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
	commands uses             // each with its first argument, on a line of its own
}

// Suggest returns the text of a profile, to be saved as a drop-in, that allows
// what the ledger of a VM holds as used and allowed, and no more of its kind.
func Suggest(ctx context.Context, db Ledger, vm string) (string, error) {
	u := &usage{named: map[string]*uses{}, folders: map[string]*uses{}}
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

// asked are the methods by which servers ask the guest, which stand in the same
// table as what the guest asks.
var asked = []string{"sampling/createMessage", "elicitation/create", "roots/list"}

func (u *usage) addCall(line []byte) {
	var r callRow
	if json.Unmarshal(line, &r) != nil || r.Action != policy.Allow && r.Action != policy.Rewrite || slices.Contains(asked, r.Method) {
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

func (u *usage) addRequest(line []byte) {
	var r netRow
	if json.Unmarshal(line, &r) != nil || r.Decision != wire.Allowed {
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
	if json.Unmarshal(line, &r) != nil || r.Outcome != ledger.OK || !isWhole(r.Operation) {
		return
	}
	folder := r.Path
	if !slices.Contains([]string{"list", "grep", "glob"}, r.Operation) { // which are about folders
		folder = path.Dir(r.Path)
	}
	of(u.folders, r.Operation).add(folder, r.Time)
}

// addCommand counts what cmd.run ran, by what a profile lists of commands: the
// name and the first argument. No word of it has the end of a line in it.
func (u *usage) addCommand(line []byte) {
	var r execRow
	if json.Unmarshal(line, &r) != nil || r.Source != dispatch.Tool {
		return
	}
	words, err := fs.Words(r.Command)
	if err != nil || len(words) == 0 || strings.Contains(r.Command, "… [cut, ") {
		u.commands.left++
		return
	}
	u.commands.add(strings.Join(words[:min(2, len(words))], "\n"), r.Time)
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
	priorityUsed = policy.Highest - 1
	priorityRest = policy.Highest
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
	writeRules(&b, "mcp", policy.OnRequest, conditions, left)

	conditions, left = nil, 0
	for _, operation := range slices.Sorted(maps.Keys(u.folders)) {
		begin := fmt.Sprintf("file.operation == %s && [\n", celString(operation))
		conditions = append(conditions, u.folders[operation].conditions(celString, begin, `].exists(f, file.path == f || file.path.startsWith(f + "/"))`)...)
		left += u.folders[operation].left
	}
	writeRules(&b, "file", policy.OnFile, conditions, left)

	conditions = u.commands.conditions(celWords, "(exec.args.size() == 0 ? [exec.command] : [exec.command, exec.args[0]]) in [\n", "]")
	writeRules(&b, "exec", policy.OnExec, conditions, u.commands.left)
	return b.String()
}

// writeCommands writes the list of commands. It cannot say that a command may
// have no argument and not any: the rules do.
func (u *usage) writeCommands(b *strings.Builder) {
	firsts := map[string][]string{}
	bare := map[string]bool{}
	for _, words := range slices.Sorted(maps.Keys(u.commands.names)) {
		name, first, has := strings.Cut(words, "\n")
		firsts[name] = append(firsts[name], celString(first))
		bare[name] = bare[name] || !has
	}
	if len(firsts) == 0 {
		return
	}
	b.WriteString("\n[cmd]\nenabled = true\n\n[cmd.allow]\n")
	for _, name := range slices.Sorted(maps.Keys(firsts)) {
		list := strings.Join(firsts[name], ", ")
		if bare[name] {
			list = ""
		}
		fmt.Fprintf(b, "%s = [%s]\n", celString(name), list)
	}
}

// celWords returns a command and its argument as a list of CEL.
func celWords(words string) string {
	var list []string
	for word := range strings.SplitSeq(words, "\n") {
		list = append(list, celString(word))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// writeRules writes a rule for each condition, which allows what it holds for,
// and one that blocks the rest.
func writeRules(b *strings.Builder, name, on string, conditions []string, left int) {
	b.WriteString("\n" + note(left))
	for i, condition := range conditions {
		fmt.Fprintf(b, "[security.rules.used.%s-%d]\non = %q\ndecision = \"allow\"\npriority = %d\nif = '''\n%s\n'''\n\n",
			name, i+1, on, priorityUsed, condition)
	}
	fmt.Fprintf(b, "[security.rules.used.%s-rest]\non = %q\ndecision = \"block\"\npriority = %d\nreason = \"it was not used when the profile was made\"\n",
		name, on, priorityRest)
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
	execRow struct {
		ID      uint64    `json:"id"`
		Time    time.Time `json:"timestamp"`
		Command string    `json:"command"`
		Source  string    `json:"source"`
		Process string    `json:"process_name"`
		Call    uint64    `json:"mcp_call_id"`
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
	}
)
