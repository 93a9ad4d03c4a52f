package workspace

// The tools as tools/list shows them: one object on one line each, but for
// spaces between tokens.
const (
	fileReadRaw = `{"name":"file_read","title":"Read a file","description":"Read a file of the workspace (/workspace). Text is returned as text, anything else base64-encoded. A file longer than limit is read in pieces: call again with offset set to the next_offset of the result.",` +
		`"inputSchema":{"type":"object","properties":{` + pathProperty + `,` +
		`"offset":{"type":"integer","minimum":0,"default":0,"description":"First byte to read"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":4194304,"default":262144,"description":"Number of bytes to read at most"},` +
		`"encoding":{"type":"string","enum":["auto","utf-8","base64"],"default":"auto","description":"auto: text if the bytes are UTF-8, else base64"}},` +
		`"required":["path"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

	fileWriteRaw = `{"name":"file_write","title":"Write a file","description":"Write a file of the workspace (/workspace).",` +
		`"inputSchema":{"type":"object","properties":{` + pathProperty + `,` +
		`"content":{"type":"string","description":"What to write"},` +
		`"encoding":{"type":"string","enum":["utf-8","base64"],"default":"utf-8","description":"How content is encoded"},` +
		`"mode":{"type":"string","enum":["overwrite","create","append"],"default":"overwrite","description":"overwrite: make the file or replace what is in it; create: fail if it exists; append: add to its end"},` +
		`"parents":{"type":"boolean","default":true,"description":"Make missing directories on the way"}},` +
		`"required":["path","content"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}}`

	fileListRaw = `{"name":"file_list","title":"List files","description":"List the regular files below a directory of the workspace (/workspace), with their sizes.",` +
		`"inputSchema":{"type":"object","properties":{` + dirProperty + `,` +
		`"pattern":{"type":"string","description":"Glob that the file's name must match, as *.go; with a slash in it the whole path below the directory must"},` +
		`"recursive":{"type":"boolean","default":true,"description":"Also list files in directories below"},` +
		pageProperties + `},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

	fileDeleteRaw = `{"name":"file_delete","title":"Delete a file","description":"Delete a file or symbolic link of the workspace (/workspace). Directories are refused.",` +
		`"inputSchema":{"type":"object","properties":{` + pathProperty + `},` +
		`"required":["path"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false}}`

	dirListRaw = `{"name":"dir_list","title":"List a directory","description":"List the entries of a directory of the workspace (/workspace): type, size and name.",` +
		`"inputSchema":{"type":"object","properties":{` + dirProperty + `,` +
		`"recursive":{"type":"boolean","default":false,"description":"Also list the directories below"},` +
		pageProperties + `},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

	dirCreateRaw = `{"name":"dir_create","title":"Make a directory","description":"Make a directory in the workspace (/workspace). One that exists already is fine.",` +
		`"inputSchema":{"type":"object","properties":{` + pathProperty + `,` +
		`"parents":{"type":"boolean","default":true,"description":"Make missing directories on the way"}},` +
		`"required":["path"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

	snapshotsListRaw = `{"name":"snapshots_list","title":"List snapshots","description":"List the snapshots of this sandbox, the oldest first.",` +
		`"inputSchema":{"type":"object","properties":{},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

	snapshotsCreateRaw = `{"name":"snapshots_create","title":"Take a snapshot","description":"Take a snapshot of this sandbox's files, to compare with or go back to later. It is called mcp- and the name; at most 12 of these can be kept.",` +
		`"inputSchema":{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":60,"pattern":"^[A-Za-z0-9._-]+$","description":"Name of the snapshot"}},` +
		`"required":["name"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}}`

	snapshotsDeleteRaw = `{"name":"snapshots_delete","title":"Delete a snapshot","description":"Delete a snapshot that was taken by snapshots_create.",` +
		`"inputSchema":{"type":"object","properties":{` + snapshotProperty + `},` +
		`"required":["snapshot"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}}`

	snapshotsChangesRaw = `{"name":"snapshots_changes","title":"Compare snapshots","description":"Tell what was added, removed, changed or renamed from one snapshot to another or to what there is now, by the contents of files: a line each. Paths are below work/ (the workspace) and layer/ (what was written elsewhere).",` +
		`"inputSchema":{"type":"object","properties":{"from":{"type":"string","description":"Name of a snapshot; the newest if not given"},` +
		`"to":{"type":"string","default":"now","description":"Name of a later snapshot, or now"}},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

	snapshotsRevertRaw = `{"name":"snapshots_revert","title":"Revert a file","description":"Make a file of the workspace (/workspace) what it was in a snapshot. If it was not there then, it is deleted.",` +
		`"inputSchema":{"type":"object","properties":{` + pathProperty + `,` +
		`"snapshot":{"type":"string","description":"Name of the snapshot; the newest that has the file if not given"}},` +
		`"required":["path"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}}`

	snapshotProperty = `"snapshot":{"type":"string","minLength":1,"description":"Name of a snapshot"}`

	pathProperty = `"path":{"type":"string","minLength":1,"description":"Path in the workspace, relative or below /workspace"}`

	dirProperty = `"path":{"type":"string","default":".","description":"Directory in the workspace, relative or below /workspace"}`

	pageProperties = `"offset":{"type":"integer","minimum":0,"default":0,"description":"Number of entries to pass over"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":10000,"default":1000,"description":"Number of entries to list at most"}`
)
