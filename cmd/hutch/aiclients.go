package main

import (
	"context"
	"flag"
	"fmt"
	"path"
	"strings"

	"hutch/fs"
)

// clientFlags are those of hutch client.
type clientFlags struct{ all, force, json bool }

// clientVerbs is the table of what hutch client does with AI clients.
var clientVerbs = map[string]verb[func(c *tree, f clientFlags, args []string) error]{
	"ls":      {0, 0, listClients},
	"add":     {2, 3, addToClient},
	"rm":      {2, 2, removeFromClient},
	"restore": {1, 1, restoreClient},
}

// defineClient has the command that gives AI clients hutch's MCP servers.
func defineClient(flags *flag.FlagSet) action {
	var f clientFlags
	flags.BoolVar(&f.all, "a", false, "list those that are not here, too")
	flags.BoolVar(&f.force, "f", false, "restore a file that others changed, too, and lose what they wrote")
	flags.BoolVar(&f.json, "json", false, "print a JSON object a line")
	return func(ctx context.Context, args []string) error {
		do, err := verbOf("client", clientVerbs, args)
		if err != nil {
			return err
		}
		return connected(func(_ context.Context, c *tree, args []string) error { return do(c, f, args) })(ctx, args[1:])
	}
}

// A clientLine is what hutch client ls says of a client.
type clientLine struct {
	Client  string            `json:"client"`
	State   string            `json:"state"`
	File    string            `json:"file"`
	Servers map[string]string `json:"servers"` // what they are, by their names
	Backup  string            `json:"backup,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

func listClients(c *tree, f clientFlags, _ []string) error {
	all, err := folders(c, "clients")
	if err != nil {
		return err
	}
	t := newTable(f.json, "CLIENT", "STATE", "SERVERS", "FILE")
	for _, name := range all {
		text, err := readFile(c, path.Join("clients", name, "status"))
		if err != nil {
			return err
		}
		line, servers, err := readClient(name, text)
		if err != nil {
			return err
		}
		if line.State == "absent" && !f.all {
			continue
		}
		last := line.File
		if line.Reason != "" {
			last = line.Reason
		}
		if err := t.row(line, name, line.State, strings.Join(servers, " "), last); err != nil {
			return err
		}
	}
	return t.flush()
}

// readClient returns what a client's status tells, and its servers as one
// reads them: what they are, with the names that are not of it.
func readClient(name, text string) (line clientLine, servers []string, err error) {
	state, rest, _ := strings.Cut(text, "\n")
	line = clientLine{Client: name, State: state, Servers: map[string]string{}}
	for l := range strings.Lines(rest) {
		words, err := fs.LineWords(l, -1)
		if key, value := fs.CutBlank(strings.TrimSuffix(l, "\n")); key == "reason" {
			line.Reason = value
			continue
		}
		if err != nil {
			return line, nil, err
		}
		switch {
		case len(words) == 2 && words[0] == "file":
			line.File = words[1]
		case len(words) == 2 && words[0] == "backup":
			line.Backup = words[1]
		case len(words) == 3 && words[0] == "server":
			line.Servers[words[1]] = words[2]
			shown := words[2]
			if as := words[1]; as != path.Base(shown) && !(shown == "mcp" && as == "hutch") {
				shown += " as " + as
			}
			servers = append(servers, shown)
		}
	}
	return line, servers, nil
}

// addToClient prints the file that it changes.
func addToClient(c *tree, _ clientFlags, args []string) error {
	message := "add " + fs.Quote(args[1])
	if len(args) == 3 {
		message += " as " + fs.Quote(args[2])
	}
	if err := tellClient(c, args[0], message); err != nil {
		return err
	}
	text, err := readFile(c, path.Join("clients", args[0], "status"))
	if err != nil {
		return err
	}
	line, _, err := readClient(args[0], text)
	if err == nil {
		_, err = fmt.Println(fs.QuoteLine(line.File))
	}
	return err
}

func removeFromClient(c *tree, _ clientFlags, args []string) error {
	return tellClient(c, args[0], "remove "+fs.Quote(args[1]))
}

func restoreClient(c *tree, f clientFlags, args []string) error {
	message := "restore"
	if f.force {
		message += " force"
	}
	if err := tellClient(c, args[0], message); err != nil {
		return err
	}
	return tellStatus(c, "clients/"+args[0], notedTexts)
}

// tellClient writes a message to the ctl of a client.
func tellClient(c *tree, name, message string) error {
	dir, err := entryOf("clients", "an AI client", name)
	if err != nil {
		return err
	}
	err = writeFile(c, dir+"/ctl", message+"\n")
	if !isMissing(err) {
		return err
	}
	known, _ := folders(c, "clients")
	return missing(c, dir, err, fmt.Sprintf("no AI client %q%s; hutch client ls -a lists them", name, meant(name, known, "")))
}

// givable are what an AI client can be given.
func givable(ctx context.Context) []string {
	return append([]string{"mcp"}, endpoints(ctx)...)
}

// endpoints are what has MCP sessions.
func endpoints(ctx context.Context) (list []string) {
	for _, dir := range []string{"servers", "groups", "vm"} {
		for _, name := range names(ctx, dir) {
			list = append(list, dir+"/"+name)
		}
	}
	return list
}
