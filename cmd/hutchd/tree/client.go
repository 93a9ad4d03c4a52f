package tree

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/profiles/clients"
)

// givens is the table of what AI clients can be given: an MCP server that the
// hutch command is, started with verb and, for a thing of the tree, its name. The
// first whose path a started one begins with is what it is.
var givens = []struct {
	what  string                          // before the slash, or all of it
	verb  string                          // of the hutch command
	path  string                          // stands before the name there
	named func(c call, name string) error // says why there is no such thing; nil: it has no names
}{
	{what: "mcp", verb: "mcp"},
	{what: "servers", verb: "mcp-session", path: "servers/", named: func(c call, name string) error {
		_, err := c.At.s.workloads.Server(name)
		return err
	}},
	{what: "groups", verb: "mcp-session", path: "groups/", named: func(c call, name string) error {
		_, err := c.At.s.workloads.Group(name)
		return err
	}},
	{what: "vm", verb: "mcp-session", named: func(c call, name string) error {
		_, err := c.At.s.Lookup(name)
		return err
	}},
}

// ownName is what clients call the host MCP server.
const ownName = "hutch"

// given returns the words that start what a message names, and what clients
// call it unless told otherwise.
func given(c call, what string, must bool) (clients.Server, error) {
	of, name, slash := strings.Cut(what, "/")
	for _, g := range givens {
		if g.what != of || slash != (g.named != nil) {
			continue
		}
		if g.named == nil {
			return clients.Server{Name: ownName, Words: []string{g.verb}}, nil
		}
		if must {
			if err := g.named(c, name); err != nil {
				return clients.Server{}, err
			}
		}
		return clients.Server{Name: name, Words: []string{g.verb, g.path + name}}, nil
	}
	var known []string
	for _, g := range givens {
		if g.named != nil {
			if !slash && g.named(c, what) == nil {
				return clients.Server{}, fmt.Errorf("%w: %s is nothing that clients use: did you mean %s/%[2]s?", fs.ErrInvalid, fs.QuoteLine(what), g.what)
			}
			g.what += "/NAME"
		}
		known = append(known, g.what)
	}
	return clients.Server{}, fmt.Errorf("%w: clients have no use for %s: want %s", fs.ErrInvalid, fs.QuoteLine(fs.Shorten(what)), strings.Join(known, " or "))
}

// whatOf returns what a server in a client's file is: "-" for what a later
// hutch put there.
func whatOf(s clients.Server) string {
	for _, g := range givens {
		switch {
		case len(s.Words) == 0 || s.Words[0] != g.verb:
		case g.named == nil && len(s.Words) == 1:
			return g.what
		case g.named != nil && len(s.Words) == 2 && strings.HasPrefix(s.Words[1], g.path):
			return g.what + "/" + strings.TrimPrefix(s.Words[1], g.path)
		}
	}
	return "-"
}

// reachable returns an address by which a program finds the service that has
// another working folder.
func reachable(listen string) string {
	path, ok := strings.CutPrefix(listen, "unix!")
	if abs, err := filepath.Abs(path); ok && err == nil {
		return "unix!" + abs
	}
	return listen
}

func clientVerbs() []verb {
	return []verb{
		{Name: "add", Args: "WHAT [as NAME]", Min: 1, Max: 3, Do: addToClient, Doc: "have the client use mcp, servers/NAME, groups/NAME or vm/NAME as an MCP server"},
		{Name: "remove", Args: "WHAT", Min: 1, Max: 1, Do: removeFromClient, Doc: "have it not use that any more"},
		{Name: "restore", Args: "[force]", Max: 1, Do: restoreClient, Doc: "put its file back as it was before hutch changed it; force: whoever changed it since"},
	}
}

func addToClient(c call, args []string) error {
	s, err := given(c, args[0], true)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		if len(args) != 3 || args[1] != "as" {
			return fmt.Errorf("%w: want \"add WHAT as NAME\"", fs.ErrInvalid)
		}
		s.Name = args[2]
	}
	if strings.HasSuffix(c.At.s.clients.Address, "!0") {
		return fmt.Errorf("%w: hutchd listens on another port each time, where no client finds it: start it with an address that stays", fs.ErrUnsupported)
	}
	return c.At.s.told(c, "add", s.Name, c.At.s.clients.Add(c.Ctx, c.At.client, s))
}

// removeFromClient takes what was given, or the name that the client has for it.
func removeFromClient(c call, args []string) error {
	s, err := given(c, args[0], false)
	if err != nil {
		has, _ := c.At.s.clients.Status(c.Ctx, c.At.client)
		i := slices.IndexFunc(has.Servers, func(s clients.Server) bool { return s.Name == args[0] })
		if i < 0 {
			return err
		}
		s = has.Servers[i]
	}
	return c.At.s.told(c, "remove", args[0], c.At.s.clients.Remove(c.Ctx, c.At.client, s.Words))
}

func restoreClient(c call, args []string) error {
	force := len(args) == 1
	if force && args[0] != "force" {
		return fmt.Errorf("%w: restore how? want \"restore\" or \"restore force\"", fs.ErrInvalid)
	}
	return c.At.s.told(c, "restore", "", c.At.s.clients.Restore(c.Ctx, c.At.client, force))
}

// told logs what was done with a client's file, and returns err.
func (s *Server) told(c call, what, server string, err error) error {
	if err == nil {
		s.cfg.Log.Info("client", "name", c.At.client, "do", what, "server", server)
	}
	return err
}

func clientNames(call) ([]string, error) { return clients.Names(), nil }

func enterClient(c call, name string) (at, error) {
	if _, err := clients.Find(name); err != nil {
		return at{}, err
	}
	return at{s: c.At.s, client: name}, nil
}

func clientName(c call) (string, error) { return c.At.client + "\n", nil }

func clientStatus(c call) (string, error) {
	s, err := c.At.s.clients.Status(c.Ctx, c.At.client)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	switch {
	case s.Err != nil:
		b.WriteString("failed\n")
	case s.Here:
		b.WriteString("installed\n")
	default:
		b.WriteString("absent\n")
	}
	fmt.Fprintf(&b, "file %s\nformat %s\n", fs.QuoteLine(s.File), s.Format)
	if s.Real != "" {
		fmt.Fprintf(&b, "link %s\n", fs.QuoteLine(s.Real))
	}
	for _, server := range s.Servers {
		fmt.Fprintf(&b, "server %s %s\n", fs.QuoteLine(server.Name), fs.QuoteLine(whatOf(server)))
	}
	if !s.Backup.IsZero() {
		fmt.Fprintf(&b, "backup %s\n", s.Backup.Format(fs.TimeFormat))
	}
	if s.TakenOut {
		fmt.Fprintf(&b, "note %s\n", fs.QuoteLine("others had changed the file since hutch wrote it: hutch's servers were taken out of what was there; hutch client restore -f "+c.At.client+" puts back what was there before them"))
	}
	if s.Err != nil {
		fmt.Fprintf(&b, "reason %s\n", fs.Text(s.Err))
	}
	return b.String(), nil
}
