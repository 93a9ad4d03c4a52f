package hostmcp

// Parameters that several tools have.
var (
	idParam   = param{name: "id", kind: text, must: true, doc: "name of the sandbox"}
	nameParam = param{name: "name", kind: text, must: true, doc: "name of the sandbox"}
	pathParam = param{name: "path", kind: text, must: true, doc: "file: relative to /workspace, or absolute in the sandbox"}
	grepParam = param{name: "grep", kind: text, doc: "only lines that have this text in them, in capitals or not"}
	tailParam = param{name: "tail", kind: whole, doc: "only so many of the last lines"}
	envParam  = param{name: "env", kind: textMap, doc: "environment variables"}
)

// tools is the table of tools. The first 26 have the names, parameters and
// defaults of Capsem's host MCP server. The manual hutch.1 has an entry for each.
func tools() []tool {
	return []tool{
		{name: "create", doc: "Make a sandbox and start it. Without a name it is ephemeral: it goes when it is stopped, or this session ends.", do: create, out: made{}, params: []param{
			{name: "name", kind: text, doc: "its name: then it stays until it is deleted"},
			{name: "ramMb", kind: whole, doc: "most memory, in MiB"},
			{name: "cpuCount", kind: whole, doc: "processors"},
			{name: "version", kind: text, doc: "of the image: IMAGE:VERSION as hutch pull names it"},
			envParam,
			{name: "from", kind: text, doc: "image to start from, or a sandbox to copy"},
			{name: "image", kind: text, doc: "the same as from"},
			{name: "profile", kind: text, doc: "profile of its policy and MCP servers"},
		}},
		{name: "list", doc: "List the sandboxes with state and image.", do: list, out: listed{}, hints: readOnly | idempotent},
		{name: "info", doc: "Tell what there is to know of a sandbox: state, use, limits and config.", do: info, out: described{}, hints: readOnly | idempotent, params: []param{idParam}},
		{name: "exec", doc: "Run a shell command in a running sandbox. Its output comes as progress, too; cancelling the call kills it.", do: execIn, out: ended{}, hints: destructive | openWorld, params: append([]param{
			idParam, commandParam, {name: "timeout", kind: whole, def: 30, max: 86400, doc: "seconds after which it is killed"}, envParam}, execParams...)},
		{name: "run", doc: "Run a shell command in a sandbox of its own, which goes then.", do: run, out: ended{}, hints: openWorld, params: append([]param{
			commandParam, {name: "timeout", kind: whole, def: 60, max: 86400, doc: "seconds after which it is killed"}, envParam,
			{name: "image", kind: text, doc: "image to start from"}}, execParams...)},
		{name: "read_file", doc: "Read a file of a sandbox, a part at a time where it is long.", do: readFile, out: fileRead{}, hints: readOnly | idempotent, params: []param{
			idParam, pathParam,
			{name: "offset", kind: whole, def: 0, doc: "byte to begin at; next_offset of the part before"},
			{name: "limit", kind: whole, def: 256 << 10, max: maxPart, doc: "most bytes"},
			{name: "encoding", kind: text, enum: []string{utf8Text, base64Text}, doc: "of the content; if not said, base64 for what is not UTF-8"}}},
		{name: "write_file", doc: "Write a file of a sandbox, with the folders that lead to it.", do: writeFile, out: fileWritten{}, hints: destructive | idempotent, params: []param{
			idParam, pathParam, {name: "content", kind: text, must: true, doc: "what the file is to have"},
			{name: "encoding", kind: text, def: utf8Text, enum: []string{utf8Text, base64Text}, doc: "of the content"},
			{name: "append", kind: yesno, def: false, doc: "add it at the end"}}},
		{name: "stop", doc: "Stop a sandbox in good order. One with a name stays, stopped; one without goes.", do: stop, out: stateOf{}, hints: destructive | idempotent, params: []param{idParam}},
		{name: "suspend", doc: "End a sandbox's machine and keep its memory on the disk.", do: suspend, out: stateOf{}, hints: idempotent, params: []param{idParam}},
		{name: "resume", doc: "Have a suspended sandbox go on, or start a stopped one.", do: resume, out: stateOf{}, hints: idempotent, params: []param{nameParam}},
		{name: "persist", doc: "Give an ephemeral sandbox a name, under which it stays.", do: persist, out: stateOf{}, params: []param{idParam, {name: "name", kind: text, must: true, doc: "its name from now on"}}},
		{name: "delete", doc: "Remove a sandbox with all its files, records and snapshots.", do: remove, out: removed{}, hints: destructive | idempotent, params: []param{idParam}},
		{name: "purge", doc: "Remove every ephemeral sandbox, whoever made it.", do: purge, out: removed{}, hints: destructive | idempotent, params: []param{
			{name: "all", kind: yesno, def: false, doc: "those with a name, too"}}},
		{name: "fork", doc: "Make a copy of a sandbox, which is stopped: create from it, or resume it.", do: fork, out: stateOf{}, params: []param{idParam,
			{name: "name", kind: text, must: true, doc: "the copy's name"}, {name: "description", kind: text, doc: "kept in the copy's config"}}},
		{name: "version", doc: "Tell the versions of this server and of the service, and whether that is reached.", do: version, out: versions{}, hints: readOnly | idempotent, alone: true},
	}
}
