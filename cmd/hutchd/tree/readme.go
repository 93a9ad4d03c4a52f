package tree

import (
	"fmt"
	"strings"

	"hutch/fs"
)

const readmeHead = `hutch: sandbox VMs as files.

A directory in vm/ is a sandbox: mkdir makes one, writing to its ctl starts
and stops it, a directory in its exec/ is a command, and mcp/calls tells what
the agent inside asked of the outside world. Plain file I/O does everything.

	mkdir vm/dev
	echo start >>vm/dev/ctl           # returns when it runs
	mkdir vm/dev/exec/t
	echo sh 'echo hello; id' >>vm/dev/exec/t/ctl
	cat vm/dev/exec/t/stdout          # streams until the command ends
	cat vm/dev/exec/t/wait            # exit status, user, system, real time
	cat vm/dev/mcp/calls              # blocks at the end; interrupt it
	echo stop >>vm/dev/ctl
	rmdir vm/dev

An agent inside reaches MCP by a program on standard input and output,
/opt/hutch/bin/hutch-relay, which /opt/hutch/mcp.json names to its client;
/opt/hutch/README tells it more, and $HUTCH_VM has the sandbox's name.

A write to a ctl is one or more lines, words quoted as 'it''s'. A bad line
does nothing, stops the batch, and is the error of the write; the text of the
last error is in err, beside the ctl and at the root. What blocks at its end
is marked *; opened with O_NONBLOCK it says "try again" there instead.

With tools for whole files, and no shell, read what ends: log/events for
events, log/mcp (log/audit of a server or group) for mcp/calls, log/service for
log/follow, status for wait, the list of asks for asks/next, and log/X beside
any other X, as exec/t/log/stdout and mcp/sessions/s/log/out. Such tools write
to a ctl, too: a temporary file beside it (ctl.tmp…, .ctl…) that is renamed over
it is a write of it. What follows sh goes to the shell as it stands, quotes
too. To call a tool, mkdir mcp/sessions/s and write call TOOL JSON to its ctl.

`

// readme makes the README of the tree from its table.
func readme(c call) (string, error) { return readmeText(c.At.s.tree.Rows()), nil }

func readmeText(rows []row) string {
	var b strings.Builder
	b.WriteString(readmeHead)
	b.WriteString("Files:\n")
	eachRow("", rows, func(path string, r *row) {
		if r.IsDir() {
			path += "/"
		}
		mark := ""
		if strings.Contains(r.Doc, "blocks") {
			mark = "*"
		}
		fmt.Fprintf(&b, "  %-34s %s%s\n", path, r.Doc, mark)
	})
	b.WriteString("\nControl messages:\n")
	eachRow("", rows, func(path string, r *row) {
		for _, v := range r.Verbs {
			fmt.Fprintf(&b, "  %-20s %-22s %s\n", path, usage(v), v.Doc)
		}
	})
	return b.String()
}

// eachRow does something for each of rows, and those below them.
func eachRow(dir string, rows []row, do func(path string, r *row)) {
	for i := range rows {
		r := &rows[i]
		path := dir + r.Name
		do(path, r)
		eachRow(path+"/", r.Rows, do)
		eachRow(path+"/", r.Each, do)
	}
}

func usage(v fs.Verb[at]) string { return strings.TrimSpace(v.Name + " " + v.Args) }
