package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/user"
	"path"
	"strings"
)

// echoer is an MCP server for any shell, which starts nothing for a call.
const echoer = `while read -r line; do
	case $line in *'"id":'*) ;; *) continue;; esac
	id=${line#*'"id":'}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) r='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echoer","version":"1"}}';;
	*'"tools/list"'*) r='"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}';;
	*'"tools/call"'*) r='"result":{"content":[{"type":"text","text":"ok"}]}';;
	*) r='"error":{"code":-32601,"message":"method not found"}';;
	esac
	printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$r"
done`

// servers measures a call to an MCP server in a sandbox of its own, beside one to the
// same server on the host; how long such a sandbox takes to start, beside a VM of the
// same image that has nothing to run; and what it holds.
func (b *bencher) servers() error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	const server = "[mcpServers.%s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\n"
	text := fmt.Sprintf(server, "inside", echoer) + fmt.Sprintf(server+"sandbox = false\nrun_as = %q\n", "host", echoer, me.Username)
	return b.withProfile(text, func() error {
		if err := b.c.mkdir("vm/"+benchVM, 0o755); err != nil {
			return err
		}
		if err := ready(b.c, "vm/"+benchVM, "set profile "+benchVM, "start"); err != nil {
			return err
		}
		err := b.serversOf("server-" + benchVM + "-inside")
		return cmp.Or(err, removeVM(b.c, benchVM, true))
	})
}

// serversOf measures the servers of the VM, the sandbox of one of which is box.
func (b *bencher) serversOf(box string) error {
	for _, s := range []struct{ tool, what, target string }{
		{"host__echo", "call to a server on the host", ""},
		{"inside__echo", "call to a server in a sandbox", "≤ 5 ms more"},
	} {
		if err := b.offers(s.tool); err != nil {
			return err
		}
		out, err := b.exec(benchVM, fmt.Sprintf("exec hutch-relay call -n 2000 -c 1 -t %v %s {}", enough, s.tool))
		if err != nil {
			return err
		}
		var f figure
		if err := json.Unmarshal([]byte(out), &f); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		f.What, f.Target, f.Unit = s.what, s.target, "/s"
		b.figures = append(b.figures, f)
	}
	mib, err := b.memoryOf(box)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure{What: "memory of the sandbox of a server", N: 1, Rate: mib, Unit: "MiB"})
	plain := benchVM + "-plain"
	return b.with(plain, func() error {
		for _, v := range []struct{ vm, what, target string }{
			{plain, "start of a VM", ""}, {box, "start of the sandbox of a server", "≤ 200 ms p50"},
		} {
			kill := func() error { return tellVM(b.c, v.vm, "kill") }
			if err := b.repeat(v.what, v.target, 20, kill, func() error { return tellVM(b.c, v.vm, "start") }); err != nil {
				return err
			}
		}
		return nil
	})
}

// offers waits until the VM has a tool.
func (b *bencher) offers(name string) error {
	_, err := readFile(b.c, path.Join("vm", benchVM, "mcp/tools", name, "description"))
	if err != nil {
		text, _ := readFile(b.c, path.Join("vm", benchVM, "mcp/servers"))
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(text))
	}
	return nil
}
