package timeline

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/ledger"
)

// A layer is a table, and what the timeline shows of its rows.
type layer struct {
	name  string
	table string
	show  func(r *record) (status, summary string)
	twins bool // its events are in the table of the VM's, too
}

const layerVM = "vm"

// layers are in the order of what happened at one moment.
var layers = []layer{
	{layerVM, ledger.VMs, showVM, false},
	{"mcp", ledger.Calls, showCall, false},
	{"exec", ledger.Execs, showExec, false},
	{"file", ledger.Files, showFile, false},
	{"net", ledger.Net, showNet, false},
	{"snapshot", ledger.Snapshots, showSnapshot, true},
	{"security", ledger.Security, showSecurity, true},
	{"ask", ledger.Asks, showAsk, false},
}

func layerNames() (names []string) {
	for _, l := range layers {
		names = append(names, l.name)
	}
	return names
}

// A record is a row of any table: the columns that the timeline looks at.
type record struct {
	ID        uint64   `json:"id"`
	Timestamp string   `json:"timestamp"`
	Trace     string   `json:"trace_id"`
	Duration  *float64 `json:"duration_ms"`

	Event    string `json:"event"`
	Text     string `json:"text"`
	Rule     string `json:"rule"`
	Reason   string `json:"reason"`
	Decision string `json:"decision"`
	Outcome  string `json:"outcome"`
	Error    string `json:"error_message"`
	Method   string `json:"method"`
	Path     string `json:"path"`

	Server       string `json:"server_name"`
	Tool         string `json:"tool_name"`
	Direction    string `json:"direction"`
	IsError      int    `json:"is_error"`
	PolicyRule   string `json:"policy_rule"`
	PolicyReason string `json:"policy_reason"`

	Command  string `json:"command"`
	ExitCode *int   `json:"exit_code"`
	Signal   string `json:"signal"`

	Operation string `json:"operation"`

	Host   string `json:"host"`
	Port   int    `json:"port"`
	Status int    `json:"status"`

	Name string `json:"name"`

	Family       string   `json:"family"`
	What         string   `json:"what"`
	Answer       string   `json:"answer"`
	AnswerReason string   `json:"answer_reason"`
	Principal    string   `json:"principal"`
	Waited       *float64 `json:"waited_ms"`
}

// The words for how something ended.
const (
	statusOK     = "ok"
	statusDenied = "denied"
	statusError  = "error"
)

// because returns what something was, and why it came to nothing, if it did.
func because(what string, why ...string) string {
	return strings.Join(slices.DeleteFunc(append([]string{what}, why...), func(w string) bool { return w == "" }), ": ")
}

func showCall(r *record) (status, summary string) {
	what := strings.TrimSpace(r.Method + " " + r.Tool)
	if r.Direction == ledger.FromServer {
		what = "server " + r.Server + " asks " + r.Method
	}
	switch {
	case r.Decision == statusDenied:
		return statusDenied, because(what, r.PolicyRule, r.PolicyReason)
	case r.Outcome == ledger.Interrupted:
		return r.Outcome, what
	case r.Outcome == ledger.Failed || r.IsError != 0:
		return statusError, because(what, r.Error)
	}
	return statusOK, what
}

func showExec(r *record) (status, summary string) {
	switch {
	case r.Error != "":
		return statusError, because(r.Command, r.Error)
	case r.ExitCode != nil:
		return "exit " + strconv.Itoa(*r.ExitCode), r.Command
	}
	return r.Signal, r.Command
}

func showFile(r *record) (status, summary string) {
	what := r.Operation + " " + r.Path
	if r.Outcome == statusDenied {
		return r.Outcome, because(what, r.PolicyRule, r.PolicyReason)
	}
	return r.Outcome, because(what, r.Error)
}

func showNet(r *record) (status, summary string) {
	what := r.Method + " " + net.JoinHostPort(r.Host, strconv.Itoa(r.Port)) + r.Path
	if r.Decision == wire.Allowed {
		return strconv.Itoa(r.Status), what
	}
	return r.Decision, because(what, r.Rule, r.Reason)
}

// showDamaged shows a row of which only the beginning can be read.
func showDamaged(r *record) (status, summary string) {
	return statusError, because("damaged row of "+r.Name, r.Error)
}

func showSnapshot(r *record) (status, summary string) { return r.Event, because(r.Name, r.Text) }

func showVM(r *record) (status, summary string) { return r.Event, r.Text }

func showSecurity(r *record) (status, summary string) { return r.Event, r.Text }

func showAsk(r *record) (status, summary string) {
	what := because(cmp.Or(r.What, r.Family), r.Rule, r.Reason, r.AnswerReason)
	if r.Principal != "" {
		what += fmt.Sprintf(" (answered by %s)", r.Principal)
	}
	return cmp.Or(r.Answer, r.Event), what
}

// maxSummary is how much of what happened a line tells, in bytes.
const maxSummary = 400

// line returns an event as a JSON object on a line that a terminal shows as it is.
func (l *layer) line(r *record) []byte {
	status, summary := l.show(r)
	if len(summary) > maxSummary {
		summary = strings.ToValidUTF8(summary[:maxSummary], "") + "…"
	}
	duration := r.Duration
	if l.table == ledger.Asks {
		duration = r.Waited
	}
	b := make([]byte, 0, 256)
	b = rawjson.AppendString(append(b, `{"timestamp":`...), r.Timestamp)
	b = rawjson.AppendString(append(b, `,"layer":`...), l.name)
	b = strconv.AppendUint(append(b, `,"id":`...), r.ID, 10)
	b = append(b, `,"trace_id":`...)
	if _, ok := trace.ParseID(r.Trace); ok {
		b = rawjson.AppendString(b, r.Trace)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"duration_ms":`...)
	if duration != nil {
		b = strconv.AppendFloat(b, *duration, 'f', 3, 64)
	} else {
		b = append(b, "null"...)
	}
	b = rawjson.AppendString(append(b, `,"status":`...), status)
	b = rawjson.AppendString(append(b, `,"summary":`...), summary)
	return append(fs.EscapeLine(append(b, '}')), '\n')
}
