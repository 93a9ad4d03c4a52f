package tree

import (
	"hutch/cmd/hutchd/gateway"
	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/workload"
	"hutch/fs"
	"hutch/mcpd/asks"
	"hutch/mcpd/ledger"
)

// at is what a walk of the tree has found: the service, and on the way down
// a VM, an exec, or the name of something that is only looked at.
type at struct {
	s       *Server
	vm      *sandbox.Sandbox
	gw      *gateway.Gateway // of the VM, server or group
	server  *workload.Server
	group   *workload.Group
	exec    *sandbox.Exec
	session *gateway.Session
	tcp     *sandbox.TCP
	ask     *asks.Ask
	name    string
	snap    string // of a snapshot of the VM
	client  string // the name of an AI client
}

type (
	call = fs.Call[at]
	row  = fs.Row[at]
	verb = fs.Verb[at]
)

// rows is the declaration of the tree: every file is one row, which names
// its permission and its behaviour. What others than hutchd's user may do, where they
// may use the mount, is in the permissions alone: they see what there is and how it
// is, and the workspaces as those files' own modes allow; not what was said, done or
// recorded, nor what else guests have. The manual hutch.4 has an entry for each.
func rows() []row {
	return []row{
		{Name: "README", Perm: 0o444, Read: readme, Doc: "this text"},
		{Name: "ctl", Perm: 0o600, Read: settings, Verbs: rootVerbs(), Doc: "control the service; read: its settings"},
		{Name: "status", Perm: 0o444, Read: rootStatus, Doc: "a line for each VM: name, state, driver, image"},
		{Name: "version", Perm: 0o444, Read: version, Doc: "version of hutchd"},
		{Name: "err", Perm: 0o400, Read: rootErr, Doc: "the last error any client got"},
		{Name: "events", Perm: 0o400, Open: rootEvents, Doc: "lifecycle and security events of every VM, a JSON line each; blocks"},
		{Name: "metrics", Perm: 0o444, Read: metrics, Doc: "counters, as Prometheus text"},
		{Name: "drivers", Perm: 0o444, Read: drivers, Doc: "what can run VMs here, a line each"},
		{Name: "doctor", Perm: 0o400, Read: examined, Doc: "the machine looked over: what it has and lacks, and what to do about that, a line each"},
		{Name: "log", Perm: 0o500, Rows: logRows(), Doc: "logs of the service"},
		{Name: "images", Perm: 0o755, Names: imageNames, Enter: enterImage, Each: imageRow(), Make: makeImage, Drop: dropImage, Doc: "root file systems; mkdir makes one, rmdir removes it"},
		{Name: "profiles", Perm: 0o700, Under: profileFolder, Rows: profileRows(), Doc: "profiles, NAME.toml each; edit them with anything"},
		{Name: "asks", Perm: 0o700, Names: askNames, Enter: enterAsk, Each: askRow(), Doc: "what waits for a person to decide it, over all VMs",
			Rows: []row{{Name: "next", Perm: 0o400, Open: nextAsk, Doc: "what waits and what comes, a JSON line each; blocks, the list of asks does not"}}},
		{Name: "registry", Perm: 0o555, Rows: registryRows(), Doc: "MCP servers that can be run by name"},
		{Name: "clients", Perm: 0o500, Names: clientNames, Enter: enterClient, Each: clientRow(), Doc: "the AI clients of the user that hutchd runs as"},
		{Name: "secrets", Perm: 0o700, Names: secretNames, Enter: enterSecret, Each: secretRow(), New: newSecret, Drop: dropSecret, Doc: "what references to secrets lead to; write a file to set one, rm forgets it"},
		{Name: "db", Perm: 0o555, Doc: "the ledgers of every VM", Rows: []row{
			{Name: "schema", Perm: 0o444, Read: rootSchema, Doc: "the tables, as statements of SQL, with the column vm"},
			{Name: "query", Perm: 0o600, Open: openRootQuery, Doc: "write a SELECT over every VM, read its rows, a JSON line each, on one open file"},
		}},
		{Name: "servers", Perm: 0o755, Names: serverNames, Enter: enterServer, Each: serverRow(), Make: makeServer, Drop: dropServer, Doc: "MCP servers, each in a sandbox of its own or elsewhere; mkdir makes one, rmdir removes it"},
		{Name: "groups", Perm: 0o755, Names: groupNames, Enter: enterGroup, Each: groupRow(), Make: makeGroup, Drop: dropGroup, Doc: "groups of those servers, each served as one; mkdir makes one, rmdir removes it"},
		{Name: "vm", Perm: 0o755, Names: vmNames, Enter: enterVM, Each: vmRow(), Make: makeVM, Drop: dropVM, Doc: "the sandboxes; mkdir makes one, rmdir removes it",
			Rows: []row{{Name: "clone", Perm: 0o600, Open: cloneVM, Doc: "open for reading and writing: an anonymous VM"}}},
	}
}

func logRows() []row {
	return []row{
		{Name: "service", Perm: 0o400, Open: serviceLog(false), Size: serviceLogSize, Doc: "the log of hutchd"},
		{Name: "follow", Perm: 0o400, Open: serviceLog(true), Doc: "the same; blocks at the end"},
		{Name: "events", Perm: 0o400, Open: ends(rootEvents), Doc: "the same as events, but ends"},
		{Name: "panics", Perm: 0o600, Open: openPanics, Doc: "crashes of hutchd with their stacks, a JSON line each; write since or limit first to narrow them"},
		{Name: "triage", Perm: 0o600, Open: openTriage, Doc: "what went wrong, was dropped or was slow lately, a JSON line each, counted; write since or limit first to narrow it"},
	}
}

func imageRow() []row {
	return []row{{Name: "NAME", Perm: 0o555, Doc: "an image", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: imageName, Verbs: imageVerbs(), Doc: "control the image; read: its name"},
		{Name: "status", Perm: 0o444, Read: imageStatus, Doc: "whether it has its files, and how far a pull or import is"},
		{Name: "info", Perm: 0o444, Read: imageInfo, Doc: "what the image is, key value lines"},
	}}}
}

func profileRows() []row {
	return []row{
		{Name: "err", Perm: 0o400, Read: profileErr, Doc: "why a profile does not parse, a line each"},
		{Name: "show", Perm: 0o600, Open: openShow, Doc: "write a profile's name, read every key, its layer and its value, on one open file"},
	}
}

func askRow() []row {
	return []row{{Name: "ID", Perm: 0o500, Doc: "something that waits; it goes when it is answered", Rows: []row{
		{Name: "request", Perm: 0o400, Read: askRequest, Doc: "what is asked, by which rule and why, a JSON line"},
		{Name: "answer", Perm: 0o600, Read: nothing, Write: answerAsk, Doc: "write allow, allow always, allow always exact, or deny [REASON]"},
	}}}
}

func registryRows() []row {
	return []row{
		{Name: "search", Perm: 0o600, Open: openSearch, Doc: "write words, read the entries that have them, a JSON line each, on one open file"},
		{Name: "status", Perm: 0o444, Read: registryStatus, Doc: "the sources, when they were read, and what was refused, key value lines"},
		{Name: "ctl", Perm: 0o600, Read: registrySources, Verbs: registryVerbs(), Doc: "set the sources of entries; read: those that are set"},
		{Name: "servers", Perm: 0o555, Names: entryNames, Enter: enterEntry, Each: entryRow(), Doc: "the entries, a / of their names as %2F"},
	}
}

func entryRow() []row {
	return []row{{Name: "NAME", Perm: 0o555, Doc: "an entry", Rows: []row{
		{Name: "info", Perm: 0o444, Read: entryInfo, Doc: "what a run of the server needs, a JSON line"},
	}}}
}

func clientRow() []row {
	return []row{{Name: "NAME", Perm: 0o500, Doc: "an AI client", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: clientName, Verbs: clientVerbs(), Doc: "have the client use hutch's MCP servers; read: its name"},
		{Name: "status", Perm: 0o400, Read: clientStatus, Doc: "whether it is there, its file, and which of hutch's servers are in that"},
	}}}
}

func secretRow() []row {
	return []row{{Name: "NAME", Perm: 0o200, Open: openSecret, Doc: "a secret, of which only its server reads what was written"}}
}

func vmRow() []row {
	return []row{{Name: "NAME", Perm: 0o755, Doc: "a sandbox", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: vmName, Verbs: vmVerbs(), Doc: "control the VM; read: its name"},
		{Name: "status", Perm: 0o444, Read: vmStatus, Doc: "state, then key value lines"},
		{Name: "config", Perm: 0o600, Read: vmConfig, Store: stored(setConfig), Check: configErr, Ready: configReady, Doc: "key value lines; editable while the VM does not run"},
		{Name: "err", Perm: 0o400, Read: vmErr, Doc: "the last error about this VM"},
		{Name: "events", Perm: 0o400, Open: ledgerLog(ledger.VMs, true), Doc: "events of this VM from the first, a JSON line each; blocks"},
		{Name: "env", Perm: 0o755, Mount: envFolder, Doc: "the environment, a file a variable"},
		{Name: "cons", Perm: 0o600, Open: openCons, Doc: "the console: a shell on a pty; blocks"},
		{Name: "work", Perm: 0o755, Mount: workFolder, Doc: "the workspace: the guest's /workspace, live"},
		{Name: "root", Perm: 0o700, Under: guestRoot, Links: rootLinks, Doc: "the guest's whole file system, while it runs"},
		{Name: "snap", Perm: 0o700, Names: snapNames, Enter: enterSnap, Each: snapRow(), Make: makeSnap, Drop: dropSnap, Doc: "snapshots; mkdir takes one, rmdir drops it",
			Rows: []row{{Name: "diff", Perm: 0o600, Open: openDiff, Doc: "write two snapshots' names, read the difference, on one open file"}}},
		{Name: "undo", Perm: 0o400, Read: undoList, Doc: "what can be undone, the oldest first, a line each"},
		{Name: "pack", Perm: 0o600, Open: openPack, Doc: "read: the VM as one archive; write first what is to be in it, on one open file"},
		{Name: "unpack", Perm: 0o200, Open: openUnpack, Doc: "write an archive: the VM, which was just made, is what it says when it is closed"},
		{Name: "exec", Perm: 0o700, Names: execNames, Enter: enterExec, Each: execRow(), Make: makeExec, Drop: dropExec, Doc: "commands; mkdir makes one, rmdir drops it",
			Rows: []row{{Name: "clone", Perm: 0o600, Open: cloneExec, Doc: "open for reading and writing: an anonymous exec"}}},
		{Name: "timeline", Perm: 0o600, Open: openTimeline, Doc: "what happened, a JSON line each, in order of time; write trace, since, layer … first to narrow it"},
		{Name: "net", Perm: 0o500, Doc: "connections into the guest", Rows: []row{
			{Name: "tcp", Perm: 0o755, Names: tcpNames, Enter: enterTCP, Each: tcpRow(), Make: makeTCP, Drop: dropTCP, Doc: "TCP connections to its ports; mkdir makes one, rmdir ends it",
				Rows: []row{{Name: "clone", Perm: 0o600, Open: cloneTCP, Doc: "open for reading and writing: an anonymous connection"}}}}},
		{Name: "policy", Perm: 0o500, Rows: policyRows(), Doc: "what decides what the agent may"},
		{Name: "mcp", Perm: 0o555, Rows: mcpRows("SERVER__TOOL", "SERVER__PROMPT"), Doc: "what the agent asks of the outside world"},
		{Name: "db", Perm: 0o555, Rows: dbRows(), Doc: "the ledger of this VM, to ask and to copy"},
		{Name: "log", Perm: 0o500, Rows: vmLogRows(), Doc: "logs of this VM: growing files that end"},
	}}}
}

func serverRow() []row {
	return []row{{Name: "NAME", Perm: 0o755, Doc: "an MCP server", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: serverName, Verbs: serverVerbs(), Doc: "control the server; read: its name"},
		{Name: "status", Perm: 0o444, Read: serverStatus, Doc: "state, then key value lines"},
		{Name: "config", Perm: 0o600, Read: serverConfig, Store: stored(setServerConfig), Check: serverConfigErr, Ready: serverConfigReady, Doc: "what the server is, a RunConfig; editable while it does not run"},
		{Name: "login", Perm: 0o400, Read: serverLogin, Doc: "what a login waits for, one line"},
		{Name: "err", Perm: 0o400, Read: gatewayErr, Doc: "the last error about this server"},
		{Name: "events", Perm: 0o400, Open: ledgerLog(ledger.VMs, true), Doc: "events of this server from the first, a JSON line each; blocks"},
		{Name: "tools", Perm: 0o555, Names: tools.names, Enter: tools.enter, Each: toolRow("TOOL"), Doc: "its tools, by their own names"},
		{Name: "policy", Perm: 0o500, Rows: policyRows(), Doc: "what decides which calls there may be"},
		{Name: "mcp", Perm: 0o555, Rows: mcpRows("TOOL", "PROMPT"), Doc: "what is asked of the server"},
		{Name: "db", Perm: 0o555, Rows: dbRows(), Doc: "the ledger of this server, to ask and to copy"},
		{Name: "timeline", Perm: 0o600, Open: openTimeline, Doc: "what happened, a JSON line each, in order of time; write trace, since, layer … first to narrow it"},
		{Name: "log", Perm: 0o500, Doc: "logs of this server: growing files that end", Rows: gatewayLogRows(
			row{Name: "server", Perm: 0o400, Open: logFile("agg"), Size: logSize("agg"), Doc: "what the server writes to its standard error, and the aggregator's log"})},
	}}}
}

// gatewayLogRows are the logs of a server or a group: own is the only one that differs.
func gatewayLogRows(own row) []row {
	return []row{
		{Name: "events", Perm: 0o400, Open: ledgerLog(ledger.VMs, false), Size: ledgerSize(ledger.VMs), Doc: "the same as events, but ends"},
		own,
		{Name: "audit", Perm: 0o400, Open: ledgerLog(ledger.Calls, false), Size: ledgerSize(ledger.Calls), Doc: "the same as mcp/calls, but ends"},
		{Name: "security", Perm: 0o400, Open: ledgerLog(ledger.Security, false), Size: ledgerSize(ledger.Security), Doc: "refused calls, a JSON line each"},
	}
}

func groupRow() []row {
	return []row{{Name: "NAME", Perm: 0o755, Doc: "a group of MCP servers", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: groupName, Verbs: groupVerbs(), Doc: "control the group; read: its name"},
		{Name: "members", Perm: 0o644, Read: groupMembers, Write: joinGroup, Doc: "the servers in it, a line each; write a name to have that in it, and in no other"},
		{Name: "status", Perm: 0o444, Read: groupStatus, Doc: "state, then key value lines"},
		{Name: "config", Perm: 0o600, Read: groupConfig, Store: stored(setGroupConfig), Check: groupConfigErr, Doc: "how its servers are served, the YAML of a Virtual MCP Server"},
		{Name: "err", Perm: 0o400, Read: gatewayErr, Doc: "the last error about this group"},
		{Name: "events", Perm: 0o400, Open: ledgerLog(ledger.VMs, true), Doc: "events of this group from the first, a JSON line each; blocks"},
		{Name: "tools", Perm: 0o555, Names: tools.names, Enter: tools.enter, Each: toolRow("TOOL"), Doc: "its tools, by the names that its config gives them"},
		{Name: "policy", Perm: 0o500, Rows: policyRows(), Doc: "what decides which calls there may be"},
		{Name: "mcp", Perm: 0o555, Rows: mcpRows("TOOL", "PROMPT"), Doc: "what is asked of the group"},
		{Name: "db", Perm: 0o555, Rows: dbRows(), Doc: "the ledger of this group, to ask and to copy"},
		{Name: "timeline", Perm: 0o600, Open: openTimeline, Doc: "what happened, a JSON line each, in order of time; write trace, since, layer … first to narrow it"},
		{Name: "log", Perm: 0o500, Doc: "logs of this group: growing files that end", Rows: gatewayLogRows(
			row{Name: "agg", Perm: 0o400, Open: logFile("agg"), Size: logSize("agg"), Doc: "the aggregator's log"})},
	}}}
}

func snapRow() []row {
	return []row{{Name: "NAME", Perm: 0o555, Doc: "a snapshot", Rows: []row{
		{Name: "info", Perm: 0o444, Read: snapInfo, Doc: "when it was taken, what it has and what it cost, key value lines"},
		{Name: "diff", Perm: 0o555, Names: otherSnaps, Enter: enterOther, Each: otherRow(), Doc: "differences to other snapshots and to now"},
		{Name: "work", Perm: 0o555, Mount: snapFolder, Doc: "the workspace as it was, read-only"},
		{Name: "layer", Perm: 0o555, Mount: snapFolder, Doc: "what the guest had written elsewhere, read-only"},
	}}}
}

func otherRow() []row {
	return []row{{Name: "OTHER", Perm: 0o444, Read: snapDiff, Doc: "what is different in that snapshot, or now, a line each"}}
}

func execRow() []row {
	return []row{{Name: "N", Perm: 0o755, Doc: "a command", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: execName, Verbs: execVerbs(), Doc: "control the command; read: its name"},
		{Name: "cmd", Perm: 0o400, Read: execText("cmd"), Doc: "the command line"},
		{Name: "status", Perm: 0o444, Read: execText("status"), Doc: "state, then key value lines"},
		{Name: "stdin", Perm: 0o600, Open: openStdin, Doc: "standard input; closing it ends the input, unless hold was said"},
		{Name: "stdout", Perm: 0o400, Open: execStream("stdout"), Doc: "standard output; blocks until the command ends"},
		{Name: "stderr", Perm: 0o400, Open: execStream("stderr"), Doc: "standard error; blocks until the command ends"},
		{Name: "wait", Perm: 0o444, Open: openWait, Doc: "blocks; exit status or signal, user, system and real seconds, of which status has the result"},
		{Name: "log", Perm: 0o500, Doc: "what there is so far", Rows: []row{
			{Name: "stdout", Perm: 0o400, Open: ends(execStream("stdout")), Doc: "the same as stdout, but ends"},
			{Name: "stderr", Perm: 0o400, Open: ends(execStream("stderr")), Doc: "the same as stderr, but ends"},
		}},
	}}}
}

func tcpRow() []row {
	return []row{{Name: "N", Perm: 0o755, Doc: "a connection", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: tcpName, Verbs: tcpVerbs(), Doc: "control the connection; read: its name"},
		{Name: "status", Perm: 0o444, Read: tcpStatus, Doc: "state, then key value lines"},
		{Name: "data", Perm: 0o600, Open: openTCP, Doc: "what is sent and received; blocks"},
		{Name: "log", Perm: 0o500, Doc: "what there is so far", Rows: []row{
			{Name: "data", Perm: 0o400, Open: ends(openTCP), Doc: "what was received and not read yet, which this takes; ends"},
		}},
	}}}
}

func policyRows() []row {
	return []row{
		{Name: "rules", Perm: 0o400, Read: policyRules, Doc: "the rules in the order in which they are tried, a line each"},
		{Name: "test", Perm: 0o600, Open: openPolicyTest, Doc: "write an event as a JSON line, read what would be decided, on one open file"},
		{Name: "replay", Perm: 0o600, Open: openPolicyReplay, Doc: "write a profile's name, or nothing, read which recorded requests it would decide otherwise, on one open file"},
		{Name: "suggest", Perm: 0o400, Read: policySuggest, Doc: "the text of a profile that allows what was used, and no more"},
	}
}

// mcpRows are those of an endpoint whose tools and prompts are named so.
func mcpRows(tool, prompt string) []row {
	return []row{
		{Name: "ctl", Perm: 0o600, Read: mcpSettings, Verbs: mcpVerbs(), Doc: "control the endpoint; read: its sessions, and the tools that are held back"},
		{Name: "calls", Perm: 0o400, Open: ledgerLog(ledger.Calls, true), Doc: "every call from the first, a JSON line each; blocks"},
		{Name: "servers", Perm: 0o400, Read: mcpServers, Doc: "the MCP servers and their state, a line each"},
		{Name: "tools", Perm: 0o555, Names: tools.names, Enter: tools.enter, Each: toolRow(tool), Doc: "the tools the agent can call, and those that are held back"},
		{Name: "resources", Perm: 0o555, Names: resources.names, Enter: resources.enter, Each: resourceRow(), Doc: "the resources it can read, by escaped URI"},
		{Name: "sessions", Perm: 0o700, Names: sessionNames, Enter: enterSession, Each: sessionRow(), Make: makeSession, Drop: dropSession, Doc: "MCP sessions as files; mkdir makes one, rmdir ends it",
			Rows: []row{{Name: "clone", Perm: 0o600, Open: cloneSession, Doc: "open for reading and writing: an anonymous session"}}},
		{Name: "prompts", Perm: 0o555, Names: prompts.names, Enter: prompts.enter, Each: promptRow(prompt), Doc: "the prompts it can get"},
	}
}

func sessionRow() []row {
	return []row{{Name: "NAME", Perm: 0o755, Doc: "an MCP session", Rows: []row{
		{Name: "ctl", Perm: 0o600, Read: sessionName, Verbs: sessionVerbs(), Doc: "control the session; read: its name"},
		{Name: "status", Perm: 0o444, Read: sessionStatus, Doc: "state, then key value lines"},
		{Name: "in", Perm: 0o600, Read: nothing, Write: sendInSession, Long: maxLine, Doc: "JSON-RPC messages of a client, a line each"},
		{Name: "out", Perm: 0o400, Open: openSessionOut, Doc: "JSON-RPC messages for it from the first, a line each; blocks until all is answered after eof"},
		{Name: "data", Perm: 0o600, Open: openSessionData, Doc: "in and out on one open file, for one client at a time"},
		{Name: "log", Perm: 0o500, Doc: "what there is so far", Rows: []row{
			{Name: "out", Perm: 0o400, Open: ends(openSessionOut), Doc: "the same as out, but ends"},
		}},
	}}}
}

func toolRow(name string) []row {
	return []row{{Name: name, Perm: 0o555, Doc: "a tool", Rows: []row{
		{Name: "schema", Perm: 0o444, Read: toolSchema, Doc: "the tool's input schema, JSON"},
		{Name: "description", Perm: 0o444, Read: toolDescription, Doc: "the tool's description"},
		{Name: "approved", Perm: 0o444, Read: toolApproved, Doc: "what was approved of the tool, a line each value; empty if nothing was"},
		{Name: "offered", Perm: 0o444, Read: toolOffered, Doc: "the same of what its server offers now; another than approved is held back"},
		{Name: "call", Perm: 0o600, Open: tools.open, Doc: "write the arguments as a JSON line, read the result, on one open file"},
	}}}
}

func resourceRow() []row {
	return []row{{Name: "SERVER__URI", Perm: 0o555, Doc: "a resource", Rows: []row{
		{Name: "info", Perm: 0o444, Read: resources.info, Doc: "the resource as its server lists it, JSON"},
		{Name: "call", Perm: 0o600, Open: resources.open, Doc: "write an empty line, read the contents, on one open file"},
	}}}
}

func promptRow(name string) []row {
	return []row{{Name: name, Perm: 0o555, Doc: "a prompt", Rows: []row{
		{Name: "info", Perm: 0o444, Read: prompts.info, Doc: "the prompt as its server lists it, JSON"},
		{Name: "call", Perm: 0o600, Open: prompts.open, Doc: "write the arguments as a JSON line, read the messages, on one open file"},
	}}}
}

func vmLogRows() []row {
	return []row{
		{Name: "events", Perm: 0o400, Open: ledgerLog(ledger.VMs, false), Size: ledgerSize(ledger.VMs), Doc: "the same as events, but ends"},
		{Name: "cons", Perm: 0o600, Open: ends(openCons), Doc: "the same as cons, but ends"},
		{Name: "serial", Perm: 0o400, Open: logFile("serial"), Size: logSize("serial"), Doc: "what the machine itself printed"},
		{Name: "process", Perm: 0o400, Open: logFile("process"), Size: logSize("process"), Doc: "the driver's log"},
		{Name: "agg", Perm: 0o400, Open: logFile("agg"), Size: logSize("agg"), Doc: "the aggregator's log, with its servers' standard error"},
		{Name: "mcp", Perm: 0o400, Open: ledgerLog(ledger.Calls, false), Size: ledgerSize(ledger.Calls), Doc: "the same as mcp/calls, but ends"},
		{Name: "net", Perm: 0o400, Open: ledgerLog(ledger.Net, false), Size: ledgerSize(ledger.Net), Doc: "every request to the proxy, when it has ended, a JSON line each"},
		{Name: "asks", Perm: 0o400, Open: ledgerLog(ledger.Asks, false), Size: ledgerSize(ledger.Asks), Doc: "what a person was asked, and what was answered, a JSON line each"},
		{Name: "exec", Perm: 0o400, Open: ledgerLog(ledger.Execs, false), Size: ledgerSize(ledger.Execs), Doc: "every command that has ended, or could not start, a JSON line each"},
		{Name: "file", Perm: 0o400, Open: ledgerLog(ledger.Files, false), Size: ledgerSize(ledger.Files), Doc: "every operation of a tool on a file, a JSON line each"},
		{Name: "security", Perm: 0o400, Open: ledgerLog(ledger.Security, false), Size: ledgerSize(ledger.Security), Doc: "refused calls and frames, a JSON line each"},
		{Name: "snapshots", Perm: 0o400, Open: ledgerLog(ledger.Snapshots, false), Size: ledgerSize(ledger.Snapshots), Doc: "snapshots taken, dropped and reverted to, and what was undone, a JSON line each"},
	}
}
