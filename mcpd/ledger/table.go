package ledger

import "strconv"

// The tables of a session database.
const (
	Calls     = "mcp_calls"       // every MCP request, in both directions; written by Begin and End only
	Execs     = "exec_events"     // every command that was run in the VM
	VMs       = "vm_events"       // the VM's life: started, stopped, failed …
	Security  = "security_events" // refusals and other things worth a look
	Snapshots = "snapshot_events" // snapshots that were taken, dropped, reverted to, and what was undone
	Net       = "net_events"      // every request to the VM's proxy
	Asks      = "asks"            // what a person was asked, and then what was answered
	Files     = "fs_events"       // every operation of a tool on a file
)

// How much of a column's text is kept.
const (
	wordMax = 256      // names, ids, states
	textMax = 4 * 1024 // previews, commands, reasons
)

// A kind says what a column holds. Each has a type in SQL: TEXT the first two.
type kind byte

const (
	word    kind = iota // text of at most wordMax bytes
	text                // text of at most textMax bytes
	integer             // INTEGER; what is true or not is 1 or 0
	real                // REAL; durations, in milliseconds
)

type column struct {
	name string
	kind kind
}

// A table is a bucket and the columns of its records. Every record has
// every column, in this order, after id and timestamp.
type table struct {
	name    string
	columns []column
}

var tables = []table{
	{Calls, []column{
		{"server_name", word}, {"method", word}, {"tool_name", word}, {"request_id", word},
		{"decision", word}, {"duration_ms", real},
		{"request_preview", text}, {"response_preview", text}, {"error_message", text},
		{"process_name", word}, {"bytes_sent", integer}, {"bytes_received", integer},
		{"policy_action", word}, {"policy_rule", word}, {"policy_reason", text},
		{"trace_id", word}, {"outcome", word},
		{"is_error", integer}, {"direction", word}, {"principal", word},
	}},
	{Execs, []column{
		{"exec_id", word}, {"command", text}, {"exit_code", integer}, {"signal", word},
		{"duration_ms", real}, {"stdout_preview", text}, {"stderr_preview", text},
		{"stdout_bytes", integer}, {"stderr_bytes", integer}, {"error_message", text},
		{"source", word}, {"process_name", word}, {"pid", integer},
		{"mcp_call_id", integer}, {"trace_id", word},
	}},
	{VMs, []column{
		{"event", word}, {"state", word}, {"driver", word}, {"image", word}, {"text", text}, {"trace_id", word},
	}},
	{Security, []column{{"event", word}, {"rule", word}, {"text", text}, {"trace_id", word}}},
	{Snapshots, []column{
		{"event", word}, {"name", word}, {"state", word}, {"automatic", integer},
		{"files", integer}, {"bytes", integer}, {"shared", integer}, {"linked", integer}, {"copied", integer},
		{"frozen_ms", real}, {"duration_ms", real}, {"text", text}, {"trace_id", word},
	}},
	{Net, []column{
		{"host", word}, {"port", integer}, {"method", word}, {"path", text}, {"decision", word},
		{"rule", word}, {"reason", text}, {"status", integer},
		{"bytes_sent", integer}, {"bytes_received", integer}, {"duration_ms", real}, {"process_name", word},
		{"trace_id", word},
	}},
	{Asks, []column{
		{"event", word}, {"ask", integer}, {"mcp_call_id", integer}, {"family", word}, {"what", text}, {"rule", word}, {"reason", text},
		{"answer", word}, {"answer_reason", text}, {"principal", word}, {"waited_ms", real},
		{"trace_id", word},
	}},
	{Files, []column{
		{"operation", word}, {"path", text}, {"bytes", integer}, {"duration_ms", real}, {"outcome", word},
		{"error_message", text}, {"policy_rule", word}, {"policy_reason", text},
		{"source", word}, {"process_name", word}, {"mcp_call_id", integer}, {"trace_id", word},
	}},
}

// A Table is a table as SQL has it.
type Table struct {
	Name    string
	Columns []Column // id and timestamp first

	keys [][]byte // of their members in a line, with the colon
}

// A Column is a column of a table.
type Column struct{ Name, Type string }

// types are those of SQL, by kind.
var types = [...]string{word: "TEXT", text: "TEXT", integer: "INTEGER", real: "REAL"}

// Tables are the tables of a session database.
var Tables = describe()

func describe() []Table {
	var all []Table
	for _, t := range tables {
		d := Table{Name: t.name, Columns: []Column{{"id", types[integer]}, {"timestamp", types[word]}}}
		for _, c := range t.columns {
			d.Columns = append(d.Columns, Column{c.name, types[c.kind]})
		}
		for _, c := range d.Columns {
			d.keys = append(d.keys, append(strconv.AppendQuote(nil, c.Name), ':'))
		}
		all = append(all, d)
	}
	return all
}

// calls is the position of the table mcp_calls.
const calls = 0

// pendingBucket holds the calls that have begun and not ended. It is no table.
const pendingBucket = "pending"

// tableIndex returns the position of a table, -1 if there is none.
func tableIndex(name string) int {
	for i, t := range tables {
		if t.name == name {
			return i
		}
	}
	return -1
}

// index returns the position of a column, -1 if there is none.
func (t *table) index(name string) int {
	for i := range t.columns {
		if t.columns[i].name == name {
			return i
		}
	}
	return -1
}
