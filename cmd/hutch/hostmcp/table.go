package hostmcp

// Parameters that several tools have.
var (
	idParam      = param{name: "id", kind: vmName, must: true, doc: "name of the sandbox"}
	nameParam    = param{name: "name", kind: vmName, must: true, doc: "name of the sandbox"}
	pathParam    = param{name: "path", kind: text, must: true, doc: "file: relative to /workspace, or absolute in the sandbox"}
	grepParam    = param{name: "grep", kind: text, doc: "only lines that have this text in them, in capitals or not"}
	tailParam    = param{name: "tail", kind: whole, doc: "only so many of the last lines"}
	profileParam = param{name: "profile", kind: text, def: defaultProfile, doc: "the profile"}
	recentParams = []param{sinceParam("30m"), {name: "limit", kind: whole, def: 20, max: 200, doc: "most of them"}, {name: "id", kind: vmName, doc: "only of this sandbox; crashes are of none"}}
	envParam     = param{name: "env", kind: textMap, doc: "environment variables"}
)

func sinceParam(def string) param {
	return param{name: "since", kind: text, def: def, doc: "how far back: a time as 90s, 10m or 2h"}
}

// tools is the table of tools. The first 26 have the names, parameters and
// defaults of Capsem's host MCP server. hutch-mcp(1) has an entry for each.
func tools() []tool {
	return []tool{
		{name: "create", doc: "Make a sandbox and start it. Without a name it is ephemeral: it goes when it is stopped, or this session ends.", do: (*call).create, out: made{}, params: []param{
			{name: "name", kind: vmName, doc: "its name: then it stays until it is deleted"},
			{name: "ramMb", kind: whole, doc: "most memory, in MiB"},
			{name: "cpuCount", kind: whole, doc: "processors"},
			{name: "version", kind: text, doc: "of the image: IMAGE:VERSION as hutch pull names it"},
			envParam,
			{name: "from", kind: text, doc: "image to start from, or a sandbox to copy"},
			{name: "image", kind: text, doc: "the same as from"},
			{name: "profile", kind: text, doc: "profile of its policy and MCP servers"},
			{name: "undo", kind: text, enum: []string{"none", "calls", "execs", "all"}, doc: "what can be undone: its agent's calls, commands, or both"},
		}},
		{name: "list", doc: "List the sandboxes with state and image.", do: (*call).list, out: listed{}, hints: readOnly | idempotent},
		{name: "info", doc: "Tell what there is to know of a sandbox: state, use, limits and config.", do: (*call).info, out: described{}, hints: readOnly | idempotent, params: []param{idParam}},
		{name: "exec", doc: "Run a shell command in a running sandbox. Its output comes as progress, too; cancelling the call kills it.", do: (*call).exec, out: ended{}, hints: destructive | openWorld, params: append([]param{
			idParam, commandParam, {name: "timeout", kind: whole, def: 30, max: 86400, doc: "seconds after which it is killed, at least 1"}, envParam}, execParams...)},
		{name: "run", doc: "Run a shell command in a sandbox of its own, which goes then.", do: (*call).run, out: ended{}, hints: openWorld, params: append([]param{
			commandParam, {name: "timeout", kind: whole, def: 60, max: 86400, doc: "seconds after which it is killed, at least 1"}, envParam,
			{name: "image", kind: text, doc: "image to start from"}}, execParams...)},
		{name: "read_file", doc: "Read a file of a sandbox, a part at a time where it is long.", do: (*call).readFile, out: fileRead{}, hints: readOnly | idempotent, params: []param{
			idParam, pathParam,
			{name: "offset", kind: whole, def: 0, doc: "byte to begin at; next_offset of the part before"},
			{name: "limit", kind: whole, def: 256 << 10, max: maxPart, doc: "most bytes"},
			{name: "encoding", kind: text, enum: []string{utf8Text, base64Text}, doc: "of the content; if not said, base64 for what is not UTF-8"}}},
		{name: "write_file", doc: "Write a file of a sandbox, with the folders that lead to it. It is no call of the agent's: undo does not know of it; take a snapshot before.", do: (*call).writeFile, out: fileWritten{}, hints: destructive | idempotent, params: []param{
			idParam, pathParam, {name: "content", kind: text, must: true, doc: "what the file is to have"},
			{name: "encoding", kind: text, def: utf8Text, enum: []string{utf8Text, base64Text}, doc: "of the content"},
			{name: "append", kind: yesno, def: false, doc: "add it at the end"}}},
		{name: "stop", doc: "Stop a sandbox in good order. One with a name stays, stopped; one without goes.", do: (*call).stop, out: stateOf{}, hints: destructive | idempotent, params: []param{idParam}},
		{name: "suspend", doc: "End a sandbox's machine and keep its memory on the disk.", do: (*call).suspend, out: stateOf{}, hints: idempotent, params: []param{idParam}},
		{name: "resume", doc: "Have a suspended sandbox go on, or start a stopped one.", do: (*call).resume, out: stateOf{}, hints: idempotent, params: []param{nameParam}},
		{name: "persist", doc: "Give an ephemeral sandbox a name, under which it stays.", do: (*call).persist, out: stateOf{}, params: []param{idParam, {name: "name", kind: text, must: true, doc: "its name from now on"}}},
		{name: "delete", doc: "Remove a sandbox with all its files, records and snapshots.", do: (*call).delete, out: removed{}, hints: destructive | idempotent, params: []param{idParam}},
		{name: "purge", doc: "Remove every ephemeral sandbox, whoever made it.", do: (*call).purge, out: removed{}, hints: destructive | idempotent, params: []param{
			{name: "all", kind: yesno, def: false, doc: "those with a name, too"}}},
		{name: "fork", doc: "Make a copy of a sandbox, which is stopped: create from it, or resume it.", do: (*call).fork, out: stateOf{}, params: []param{idParam,
			{name: "name", kind: text, must: true, doc: "the copy's name"}, {name: "description", kind: text, doc: "kept in the copy's config"}}},
		{name: "vm_logs", doc: "Tell the ends of a sandbox's logs: of its MCP servers, its serial line, its driver, and what was refused.", do: (*call).vmLogs, out: vmLogs{}, hints: readOnly, params: []param{idParam, grepParam, tailParam}},
		{name: "service_logs", doc: "Tell the end of the service's log.", do: (*call).serviceLogs, out: logText{}, hints: readOnly, params: []param{grepParam, tailParam}},
		{name: "host_logs", doc: "Tell the end of a log of the host. Hutch has that of the service.", do: (*call).serviceLogs, out: logText{}, hints: readOnly, params: []param{
			{name: "name", kind: text, must: true, enum: []string{"service"}, doc: "which"}, grepParam, tailParam,
			{name: "maxBytes", kind: whole, def: logPart, max: maxLogPart, doc: "most of it"}}},
		{name: "panics", doc: "List crashes of the service, with place and count.", do: (*call).panics, out: rows{}, hints: readOnly, params: recentParams},
		{name: "triage", doc: "Sum up what went wrong lately: crashes, errors, drops, slow operations.", do: (*call).triage, out: rows{}, hints: readOnly, params: recentParams},
		{name: "timeline", doc: "Tell what happened in a sandbox in order of time: calls of tools, commands, files, requests, snapshots, refusals, asks.", do: (*call).timeline, out: rows{}, hints: readOnly, params: []param{idParam,
			{name: "traceId", kind: text, doc: "only what belongs to this trace"}, sinceParam("10m"),
			{name: "limit", kind: whole, def: 200, max: 2000, doc: "most events"},
			{name: "layers", kind: texts, doc: "only these: mcp, exec, file, net, snapshot, vm, security, ask"}}},
		{name: "inspect_schema", doc: "Tell the tables of a sandbox's records, as CREATE TABLE statements.", do: (*call).inspectSchema, out: schema{}, hints: readOnly | idempotent},
		{name: "inspect", doc: "Query a sandbox's records by SQL, which can only read.", do: (*call).inspect, out: rows{}, hints: readOnly, params: []param{idParam,
			{name: "sql", kind: text, must: true, doc: "a SELECT"}}},
		{name: "version", doc: "Tell the versions of this server and of the service, and whether that is reached.", do: (*call).version, out: versions{}, hints: readOnly | idempotent, alone: true},
		{name: "mcp_connectors", doc: "List the MCP servers of a profile, as its layers together say, without secrets.", do: (*call).mcpConnectors, out: connectors{}, hints: readOnly | idempotent, params: []param{profileParam}},
		{name: "mcp_add", doc: "Add an MCP server to a profile, or say it otherwise. Sandboxes of the profile that run have it at once.", do: (*call).mcpAdd, out: changed{}, hints: destructive | idempotent | openWorld, params: []param{
			{name: "id", kind: text, must: true, doc: "its name"}, profileParam, {name: "disabled", kind: yesno, doc: "keep it from being used"},
			{name: "type", kind: text, enum: []string{"stdio", "http", "sse"}, doc: "how it is spoken to"},
			{name: "command", kind: text, doc: "program of one on stdio"}, {name: "args", kind: texts, doc: "of the program"}, {name: "env", kind: textMap, doc: "of the program"},
			{name: "url", kind: text, doc: "of one over HTTP"}, {name: "headers", kind: textMap, doc: "of requests to the url"}, {name: "bearerToken", kind: text, doc: "of requests to the url"},
			{name: "credential_refs", kind: texts, doc: "refused: there is no store of credentials"}, {name: "allowed_tools", kind: texts, doc: "the only ones to be called"},
			{name: "allow", kind: texts, doc: "HOST:PORT that a command's sandbox may reach, as registry.npmjs.org:443"}, {name: "read", kind: texts, doc: "folders of the host that a command's sandbox is shown, to read"}}},
		{name: "mcp_delete", doc: "Delete an MCP server that mcp_add, or somebody, added to a profile as a file of its own.", do: (*call).mcpDelete, out: changed{}, hints: destructive | idempotent, params: []param{
			{name: "id", kind: text, must: true, doc: "its name"}, profileParam}},

		{name: "spawn", doc: "Start a shell command in a running sandbox that goes on when the call has ended, as a server; output tells what it prints.", do: (*call).spawn, out: spawned{}, hints: destructive | openWorld, params: []param{idParam, commandParam,
			{name: "timeout", kind: whole, max: 1 << 31, doc: "seconds after which it is killed; if not said it is not"}, envParam, execParams[0], execParams[1]}},
		{name: "signal", doc: "Send a signal to a command and what it started.", do: (*call).signal, out: signaled{}, hints: destructive, params: []param{idParam,
			{name: "exec", kind: execName, must: true, doc: "as spawn told"}, {name: "signal", kind: text, def: "TERM", doc: "its name"}}},
		{name: "output", doc: "Read what a command of spawn prints, or more of what one of exec printed that was cut off. Of the latter the last sixteen are there.", do: (*call).output, out: outputPart{}, hints: readOnly | idempotent, params: []param{
			idParam, {name: "exec", kind: execName, must: true, doc: "as spawn or exec told"}, {name: "stream", kind: text, def: "stdout", enum: []string{"stdout", "stderr"}, doc: "which"},
			{name: "offset", kind: whole, def: 0, doc: "byte to begin at"}, {name: "limit", kind: whole, def: 128 << 10, max: maxPart, doc: "most bytes"},
			{name: "encoding", kind: text, enum: []string{utf8Text, base64Text}, doc: "of the content; if not said, base64 for what is not UTF-8"}}},
		{name: "fork_live", doc: "Make a copy of a running sandbox with its memory, which runs on where that is.", do: (*call).forkLive, out: stateOf{}, params: []param{idParam,
			{name: "name", kind: text, must: true, doc: "the copy's name"}}},
		{name: "snapshot", doc: "Take a snapshot of a sandbox's files.", do: (*call).snapshot, out: snapshot{}, params: []param{idParam, {name: "name", kind: text, doc: "of the snapshot; if not said, at- and the time"}}},
		{name: "snapshots", doc: "List the snapshots of a sandbox.", do: (*call).snapshots, out: snapshots{}, hints: readOnly | idempotent, params: []param{idParam}},
		{name: "diff", doc: "Tell what is different between two snapshots, or a snapshot and now.", do: (*call).diff, out: difference{}, hints: readOnly | idempotent, params: []param{idParam,
			{name: "from", kind: text, must: true, doc: "a snapshot"}, {name: "to", kind: text, def: "now", doc: "another, or now"}}},
		{name: "revert", doc: "Make a sandbox's files what they were in a snapshot. One that runs is started anew.", do: (*call).revert, out: stateOf{}, hints: destructive | idempotent, params: []param{idParam,
			{name: "name", kind: text, must: true, doc: "of the snapshot"}}},
		{name: "undos", doc: "List the calls and commands of a sandbox that can be undone, the oldest first; create with undo has them kept.", do: (*call).undos, out: undos{}, hints: readOnly | idempotent, params: []param{idParam}},
		{name: "undo", doc: "Make a sandbox's workspace what it was before a call or command. The result tells what came back. Undo can be undone.", do: (*call).undo, out: undoResult{}, hints: destructive, params: []param{idParam,
			{name: "undo", kind: text, must: true, doc: "which, as undos tells; exec-N is the command N of exec"}}},
		{name: "asks", doc: "List the calls of agents in sandboxes that wait for somebody to decide them.", do: (*call).asks, out: asks{}, hints: readOnly, params: []param{
			{name: "wait", kind: whole, def: 0, max: 3600, doc: "seconds to wait for one where there is none"}}},
		{name: "answer", doc: "Decide what an agent in a sandbox waits for.", do: (*call).answer, out: answered{}, hints: destructive, params: []param{
			{name: "id", kind: whole, must: true, doc: "number of the ask"},
			{name: "answer", kind: text, must: true, enum: []string{"allow", "allow always", "allow always exact", "deny"}, doc: "always is from now on, for the tool; exact, with the same arguments"},
			{name: "reason", kind: text, doc: "of deny, which the agent is told"}}},
		{name: "policy_test", doc: "Tell what a sandbox's policy would decide of an event, by which rule and why. Nothing is done.", do: (*call).policyTest, out: judged{}, hints: readOnly | idempotent, params: []param{idParam,
			{name: "event", kind: object, must: true, doc: `as {"tool": "github__create_issue", "arguments": {…}}; hutch(4) has its names`}}},
	}
}
