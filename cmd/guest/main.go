// Guest is hutch's program inside a guest: the init of a virtual machine; the
// agent, which runs commands for the host; the relay, which MCP clients take
// for their server; and an MCP client for shells. See guest(8).
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hutch/relay"
	"hutch/relay/agent"
	"hutch/relay/boot"
	"hutch/relay/call"
	"hutch/relay/port"
	"hutch/relay/ports"
)

// isRelay says whether the program was started by the relay's name.
func isRelay() bool {
	name := filepath.Base(os.Args[0])
	return name == "relay" || name == "hutch-relay"
}

func usage() {
	text := "guest [-v] [-seal] init | agent | echo | relay [NAME] | call [-json] [-n N] [-c C] [-t D] TOOL [JSON]"
	if isRelay() {
		text = "hutch-relay [-seal] [NAME] | call [-json] [-n N [-c C] [-t D]] TOOL [JSON]\n" +
			"An MCP server on standard input and output, for the client that starts it;\n" +
			"call is a client for shells: it calls a tool and prints the result."
	}
	fmt.Fprintln(os.Stderr, "usage: "+text)
}

func main() {
	log.SetFlags(0)
	runMachine()
	verbose := flag.Bool("v", false, "say what happens with connections")
	sealed := flag.Bool("seal", os.Getenv("HUTCH_SEAL") == "1", "sign the requests of the relay and of call")
	flag.Usage = usage
	flag.Parse()
	verb, args := flag.Arg(0), flag.Args()
	if isRelay() {
		verb, args = "relay", append([]string{"relay"}, args...)
	}
	if len(args) > 1 && verb == "relay" && args[1] == "call" {
		verb, args = "call", args[1:]
	}
	log.SetPrefix("guest " + verb + ": ")
	var err error
	switch {
	case (verb == "init" || verb == "agent") && len(args) == 1:
		err = runAgent(*verbose, agent.Config{Init: verb == "init", Programs: boot.Programs})
	case verb == "ports" && len(args) == 2:
		err = ports.Main(context.Background(), args[1])
	case verb == "echo" && len(args) == 1:
		err = echo()
	case verb == "call":
		os.Exit(call.Main(context.Background(), args[1:], *sealed, os.Stdout, os.Stderr))
	case verb == "relay" && len(args) <= 2:
		err = runRelay(args[1:], *sealed)
	default:
		usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// runRelay relays between stdin and stdout and the host. The host is told the
// name given, or that of the program that started us.
func runRelay(args []string, sealed bool) error {
	name := parent()
	if len(args) > 0 {
		name = args[0]
	}
	return relay.Run(context.Background(), os.Stdin, os.Stdout, dial(port.MCP), name, sealed)
}

func parent() string {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/comm")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(comm))
}

func dial(n uint32) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return port.Dial(ctx, n) }
}
