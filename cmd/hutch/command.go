package main

import (
	"context"
	"flag"
	"os"
	"syscall"
)

// A command is a row of the table of subcommands.
type command struct {
	name, args string
	min, max   int    // how many arguments there may be beside the flags; max < 0: any number
	doc        string // one line
	define     func(*flag.FlagSet) action
	signals    []os.Signal // end its context; nil: it takes them itself
	words      bool        // follow that are not for us: flags stand before all others
}

// An action is what a command does with its arguments.
type action func(ctx context.Context, args []string) error

var (
	ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	// What has a service of its own takes that down when nobody reads its output any more, too.
	endingOwner = append(ending, syscall.SIGPIPE)
)

func commands() []command {
	return []command{
		{"run", "[FLAGS] [CMD…]", 0, -1, "run a command in a sandbox made for it", defineRun, nil, true},
		{"exec", "[FLAGS] VM CMD…", 2, -1, "run a command in a running VM", defineExec, nil, true},
		{"shell", "[FLAGS] VM", 1, 1, "be in a shell in a running VM", defineShell, nil, false},
		{"ps", "[FLAGS]", 0, 0, "list the VMs and what they run", definePs, ending, false},
		{"stats", "[FLAGS] [VM…]", 0, -1, "tell what VMs that run take: processors, memory, disk", defineStats, ending, false},
		{"inspect", "[FLAGS] OF", 1, 1, "print all that is known of a VM, servers/NAME, groups/NAME or images/NAME", defineInspect, ending, false},
		{"port", "[FLAGS] VM", 1, 1, "list the ports that programs in a VM listen on", definePort, ending, false},
		{"create", "[FLAGS] VM", 1, 1, "make a VM", defineCreate, ending, false},
		{"start", "VM…", 1, -1, "start VMs", plain(each(start)), ending, false},
		{"stop", "VM…", 1, -1, "stop VMs in good order", control("stop"), ending, false},
		{"kill", "VM…", 1, -1, "stop VMs at once", control("kill"), ending, false},
		{"suspend", "VM…", 1, -1, "end the machines of VMs and keep their memory on the disk", control("suspend"), ending, false},
		{"resume", "VM…", 1, -1, "have suspended VMs go on", control("resume"), ending, false},
		{"rm", "[FLAGS] VM…", 1, -1, "remove VMs", defineRemove, ending, false},
		{"fork", "[FLAGS] VM NEW", 2, 2, "make a copy of a VM", defineFork, ending, false},
		{"pack", "[FLAGS] VM", 1, 1, "put a VM into one archive", definePack, ending, false},
		{"unpack", "[FLAGS] FILE NEW", 2, 2, "make a VM of an archive; - is our input", defineUnpack, ending, false},
		{"snap", "[FLAGS] VM [SNAP]", 1, 2, "take a snapshot of a VM, or list those it has", defineSnap, ending, false},
		{"diff", "VM [SNAP [OTHER]]", 1, 3, "print what is different now, or in another snapshot, from one, or from the VM as it was made", defineDiff, ending, false},
		{"undo", "[FLAGS] VM [ID]", 1, 2, "make a VM's workspace what it was before a call or command, or list what can be undone", defineUndo, ending, false},
		{"config", "[FLAGS] VM [KEY [VALUE]]", 1, -1, "print or change a VM's config", defineConfig, ending, false},
		{"profile", "[FLAGS] ls|show|check|sign|keygen [PROFILE|FILE…]", 1, -1, "list or show profiles, check files of profiles, or sign those of corp", defineProfile, ending, false},
		{"secret", "set|ls|rm [SECRET…]", 1, -1, "set a secret to what is typed or comes in, list the names of all, or forget some", plain(secret), ending, false},
		{"cp", "FROM TO", 2, 2, "copy files into a VM or out of it: VM:PATH is one there", plain(connected(cp)), ending, false},
		{"logs", "[FLAGS] VM [NAME]", 1, 2, "print a log of a VM, or what a command in it printed", defineLogs, ending, false},
		{"timeline", "[FLAGS] OF", 1, 1, "print what happened in a VM, servers/NAME or groups/NAME, in order of time", defineTimeline, ending, false},
		{"calls", "[FLAGS] OF", 1, 1, "print what is asked of a VM, servers/NAME or groups/NAME by MCP", defineCalls, ending, false},
		{"call", "[FLAGS] OF [TOOL] [JSON]", 1, 3, "call a tool of a VM, servers/NAME or groups/NAME, or list those that it has; - is our input", defineCall, ending, false},
		{"forward", "VM [ADDR:]PORT:PORT…", 2, -1, "have ports here lead to ports in a VM, as 8080:80", plain(connected(forward)), ending, false},
		{"mcp-session", "OF", 1, 1, "be an MCP server on standard input and output that has the tools of a VM, servers/NAME or groups/NAME", plain(connected(mcpSession)), ending, false},
		{"client", "[FLAGS] ls|add|rm|restore [CLIENT] [WHAT] [NAME]", 1, 4, "have AI clients use hutch's MCP servers: mcp, servers/NAME, groups/NAME or vm/NAME", defineClient, ending, false},
		{"asks", "[FLAGS]", 0, 0, "list what waits for a person to decide it, or ask", defineAsks, ending, false},
		{"allow", "[FLAGS] ID…", 1, -1, "answer that it may be", defineAllow, ending, false},
		{"deny", "ID [REASON…]", 1, -1, "answer that it may not, and why", plain(connected(deny)), ending, true},
		{"approve", "OF [NAME [DIGEST]]", 1, 3, "let through a tool that is held back, or all of a server, or tell which are and why", plain(connected(approve)), ending, false},
		{"policy", "[FLAGS] test|rules|suggest|replay VM|FILE…", 2, -1, "test what a policy decides, or print or replay a VM's", definePolicy, ending, false},
		{"sql", "[FLAGS] [OF] [SQL]", 0, 2, "ask a ledger, that of a VM, servers/NAME or groups/NAME, or those of all VMs", defineSQL, ending, false},
		{"images", "[FLAGS]", 0, 0, "list the images", defineImages, ending, false},
		{"pull", "REF [NAME]", 1, 2, "get an image from a registry", plain(pull), ending, false},
		{"import", "PATH [NAME]", 1, 2, "get an image from a folder or an archive", plain(importImage), ending, false},
		{"prune", "[FLAGS]", 0, 0, "remove what nobody uses: VMs that neither run nor are suspended, and images", definePrune, ending, false},
		{"rmi", "IMAGE…", 1, -1, "remove images", plain(each(removeImage)), ending, false},
		{"registry", "[FLAGS] ls|search|info|status|source|forget|refresh [ENTRY…]", 1, -1, "list MCP servers that can be run by name, or say where they are listed", defineRegistry, ending, false},
		{"server", "[FLAGS] run|ls|start|stop|restart|set|rm|logs|export|import|login|logout [SERVER…]", 1, -1, "run MCP servers, each in a sandbox of its own or elsewhere", defineServer, ending, false},
		{"group", "ls|make|rm|add|remove [GROUP] [SERVER…]", 1, -1, "list, make and remove groups of MCP servers, and put servers into one or take them out", plain(group), ending, false},
		{"doctor", "[FLAGS]", 0, 0, "look over the machine and the service, and say what to do about what they lack", defineDoctor, ending, false},
		{"demo", "", 0, 0, "build everything, bring up a service, and show what it does", plain(demo), endingOwner, false},
		{"bench", "[FLAGS]", 0, 0, "measure a service, and print a table and JSON", defineBench, endingOwner, false},
		{"9p", "[FLAGS] ls|read|write|rdwr|mkdir|rm PATH", 1, 2, "do that to a file of the tree", defineNinep, ending, false},
		{"mcp", "[FLAGS] [-- HUTCHD-FLAG…]", 0, -1, "be an MCP server, with tools that make sandboxes and use them", defineMCP, ending, false},
		{"version", "[FLAGS]", 0, 0, "print the versions of this program and of the service", defineVersion, ending, false},
		{"completion", "bash|zsh|fish", 1, -1, "print a script by which the shell completes commands", plain(completion), ending, true},
	}
}

// plain has a command without flags.
func plain(act action) func(*flag.FlagSet) action {
	return func(*flag.FlagSet) action { return act }
}

// lookup returns the command called name, or nil.
func lookup(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// others are names that other programs have for what ours do.
var others = map[string]string{
	"remove": "rm", "delete": "rm", "del": "rm", "destroy": "rm", "ls": "ps", "ll": "ps", "new": "create", "launch": "run", "up": "start", "boot": "start", "down": "stop", "halt": "stop",
	"poweroff": "stop", "restart": "stop and start", "reboot": "stop and start", "log": "logs", "copy": "cp", "scp": "cp", "ports": "port", "build": "import", "save": "pack",
	"rename": "fork", "clone": "fork", "snapshot": "snap", "revert": "snap -revert", "checkpoint": "suspend", "events": "9p read events", "info": "doctor", "check": "doctor", "health": "doctor",
	"wait": "logs -f", "history": "timeline", "trace": "timeline", "image": "images", "tools": "call", "search": "registry search", "install": "server run",
	"add": "server run", "login": "server login", "logout": "server logout", "set": "config", "update": "config", "settings": "config", "env": "run -e", "mount": "run -v",
	"tag": "import", "query": "sql", "approvals": "asks", "secrets": "secret", "profiles": "profile",
	"attach": "shell", "ssh": "shell", "load": "import", "export": "pack", "restore": "unpack",
	"pause": "suspend", "unpause": "resume", "top": "stats", "commit": "snap", "rollback": "undo", "list": "ps",
	"groups": "group ls", "servers": "server ls",
}

// suggestion names the command that is nearest to what was typed, if one is near.
func suggestion(typed string) string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return meant(typed, names, others[typed])
}

// meant asks whether one of names was meant that is near to what was typed, or best
// where that is not "".
func meant(typed string, names []string, best string) string {
	nearest := 3
	if best != "" {
		nearest = 0
	}
	for _, name := range names {
		if d := distance(typed, name); d < nearest && d < len(name) {
			best, nearest = name, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// distance is how many letters have to be changed, left out, put in, or
// swapped with the next to make a of b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
