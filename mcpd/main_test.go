package mcpd

import (
	"context"
	"fmt"
	"os"
	"testing"

	"hutch/aggd"
	"hutch/aggd/programs"
	"hutch/mcpd/workspace"
)

// ours is how many tools there are without any server.
var ours = len(workspace.New(".", workspace.Snapshots{}).Tools())

// otherServers are MCP servers that are not a testServer.
var otherServers = map[string]func() int{}

// TestMain lets the test binary be the programs that an endpoint needs: the
// aggregator, and the MCP servers that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-programs" {
		hutchd, err := programs.NewClient(3)
		if err == nil {
			err = aggd.Run(context.Background(), aggd.Config{Programs: hutchd, Log: os.Stderr, ListWait: patience}, os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "-mcp-server" {
		if serve := otherServers[os.Args[2]]; serve != nil {
			os.Exit(serve())
		}
		os.Exit(serveTest(os.Args[2]))
	}
	os.Exit(m.Run())
}
