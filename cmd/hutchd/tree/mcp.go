package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/mcpd"
)

func mcpVerbs() []verb {
	return []verb{
		{Name: "reload", Max: 0, Do: reloadMCP, Doc: "read the VM's profile anew and connect to what it names"},
	}
}

func reloadMCP(c call, _ []string) error { return c.At.vm.Reload(c.Ctx) }

func mcpSettings(c call) (string, error) {
	return fmt.Sprintf("sessions %d\n", c.At.vm.MCP.Sessions()), nil
}

func mcpServers(c call) (string, error) { return c.At.vm.MCP.ServersText(), nil }
func mcpPolicy(c call) (string, error)  { return c.At.vm.MCP.PolicyText(), nil }

// A catalog is one of the lists of what the servers of a VM offer. It comes
// from memory: looking at it asks no server, but for a name that is looked up
// before the servers of a new machine were asked at all.
type catalog struct {
	items func(*mcpd.Endpoint) []wire.Item
	dir   func(wire.Item) string // the name of an item's directory, to be escaped
	ask   func(ctx context.Context, e *mcpd.Endpoint, name, line string) (json.RawMessage, error)
}

var (
	tools     = catalog{(*mcpd.Endpoint).Tools, agentName, withArguments((*mcpd.Endpoint).Call)}
	resources = catalog{(*mcpd.Endpoint).Resources, ownName, readResource}
	prompts   = catalog{(*mcpd.Endpoint).Prompts, agentName, withArguments((*mcpd.Endpoint).GetPrompt)}
)

func agentName(it wire.Item) string { return it.Name }
func ownName(it wire.Item) string   { return jsonrpc.Name(it.Server, it.Original) }

func withArguments(do func(e *mcpd.Endpoint, ctx context.Context, process, name string, args json.RawMessage) (json.RawMessage, error)) func(context.Context, *mcpd.Endpoint, string, string) (json.RawMessage, error) {
	return func(ctx context.Context, e *mcpd.Endpoint, name, line string) (json.RawMessage, error) {
		args, err := arguments(line)
		if err != nil {
			return nil, err
		}
		return do(e, ctx, sandbox.Asker, name, args)
	}
}

func readResource(ctx context.Context, e *mcpd.Endpoint, name, _ string) (json.RawMessage, error) {
	return e.ReadResource(ctx, sandbox.Asker, name)
}

// dirName makes a name that a file can have.
func dirName(name string) string {
	name = strings.ReplaceAll(url.PathEscape(name), "/", "%2F")
	if len(name) > 255 {
		name = name[:255]
	}
	if strings.Trim(name, ".") == "" {
		return "%2E" + strings.TrimPrefix(name, ".")
	}
	return name
}

// byDir returns the items by the names of their directories.
func (list catalog) byDir(c call) map[string]wire.Item {
	m := map[string]wire.Item{}
	for _, it := range list.items(c.At.vm.MCP) {
		m[dirName(list.dir(it))] = it
	}
	return m
}

func (list catalog) names(c call) ([]string, error) {
	return slices.Sorted(maps.Keys(list.byDir(c))), nil
}

func (list catalog) enter(c call, name string) (at, error) {
	_, ok := list.byDir(c)[name]
	if !ok {
		c.At.vm.MCP.Known(c.Ctx)
		_, ok = list.byDir(c)[name]
	}
	if !ok {
		return at{}, fmt.Errorf("%w: %s", fs.ErrNotExist, cmp.Or(c.At.vm.MCP.Missing(c.Ctx, name), name))
	}
	return at{s: c.At.s, vm: c.At.vm, name: name}, nil
}

// find returns the item whose directory the walk went through.
func (list catalog) find(c call) (wire.Item, error) {
	it, ok := list.byDir(c)[c.At.name]
	if !ok {
		return it, fmt.Errorf("%w: %s is no longer offered", fs.ErrNotExist, c.At.name)
	}
	return it, nil
}

// info returns all that the item's server said of it.
func (list catalog) info(c call) (string, error) {
	it, err := list.find(c)
	return string(it.Raw) + "\n", err
}

// open opens an item to be called: the line written is what it is asked.
func (list catalog) open(c call, flags int) (fs.Handle, error) {
	it, err := list.find(c)
	if err != nil {
		return nil, err
	}
	return openRPC(flags, func(ctx context.Context, line string) (string, error) {
		result, err := list.ask(ctx, c.At.vm.MCP, it.Name, line)
		return string(result) + "\n", err
	})
}

func toolSchema(c call) (string, error) {
	it, err := tools.find(c)
	return string(rawjson.Get(it.Raw, "inputSchema")) + "\n", err
}

func toolDescription(c call) (string, error) {
	it, err := tools.find(c)
	raw := rawjson.Get(it.Raw, "description")
	if err != nil || raw == nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%w: %s: description is not text", fs.ErrIO, c.At.name)
	}
	return text + "\n", nil
}

// arguments checks the line that was written: a JSON object, or nothing.
func arguments(line string) (json.RawMessage, error) {
	if line == "" {
		return json.RawMessage("{}"), nil
	}
	if !json.Valid([]byte(line)) || line[0] != '{' {
		return nil, fmt.Errorf("%w: arguments are not a JSON object on one line", fs.ErrInvalid)
	}
	return json.RawMessage(line), nil
}
