package image

import "hutch/vmm/image/layer"

// The guide tells an agent in a guest where it is and how it reaches what is
// outside. Every image has it, also one that was made before there was any.
var guide = map[string]string{
	"opt/hutch/README": `This is a sandbox of hutch. Its name is in $HUTCH_VM.

Your files are in /workspace: the host has them, too, and they stay. What you
write elsewhere is this sandbox's own. Locks (flock, fcntl) do not pass between
you and the host: one side at a time uses a database there, as SQLite's, or it
is destroyed.

Tools of the outside world are to be had by MCP. The server is a program,

	/opt/hutch/bin/hutch-relay

that speaks MCP on standard input and output; mcp.json, beside this file,
names it to a client: "claude --mcp-config /opt/hutch/mcp.json", or as
mcpServers in the client's own settings. Shells do without a client:

	echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | hutch-relay
	hutch-relay call file_list '{"path":"."}'

Calls are decided by a policy and recorded; a call that is refused says why.
If it says that requests have to be signed, hutch-relay -seal signs them, and
so does every hutch-relay where HUTCH_SEAL=1 is in the environment.
There is no other way out, but for a proxy where http_proxy names one.
`,
	"opt/hutch/mcp.json": `{
  "mcpServers": {
    "hutch": {
      "command": "/opt/hutch/bin/hutch-relay",
      "args": []
    }
  }
}
`,
}

// profile has login shells find hutch's programs, where the image's own
// profile would have set another PATH.
const profileName, profileText = "etc/profile.d/hutch.sh", "PATH=$PATH:/opt/hutch/bin\n"

// equip puts the guide into an image's files. One that cannot have it is to be
// used all the same.
func (i Image) equip() {
	for name, text := range guide {
		layer.Put(i.Root, name, text, true)
	}
	layer.Put(i.Root, profileName, profileText, false)
}
