package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sort"
	"strings"

	"hutch/fs"
)

func mcpVerbs() []verb {
	return []verb{
		{Name: "reload", Max: 0, Do: reloadMCP, Doc: "read the VM's profile anew and connect to what it names"},
	}
}

func reloadMCP(c call, _ []string) error { return c.At.vm.reload(c.Ctx) }

func mcpSettings(c call) (string, error) {
	return fmt.Sprintf("sessions %d\n", c.At.vm.mcp.Sessions()), nil
}

func mcpServers(c call) (string, error) { return c.At.vm.mcp.ServersText(), nil }
func mcpPolicy(c call) (string, error)  { return c.At.vm.mcp.PolicyText(), nil }

// An item is something in the catalog of the VM's endpoint: what its server
// said of it, by the name of its directory.
type item struct {
	name string // as the agent names it
	raw  json.RawMessage
}

// items are the three catalogs, each by the names of its directory. They
// come from memory: looking at them asks no server, but for a name that is
// looked up before the servers of a new machine were asked at all.
func (v *vm) tools() map[string]item {
	m := map[string]item{}
	for _, t := range v.mcp.Tools() {
		m[dirName(t.Name)] = item{t.Name, t.Raw}
	}
	return m
}

func (v *vm) resources() map[string]item {
	m := map[string]item{}
	for _, r := range v.mcp.Resources() {
		server, uri := r.Server, r.URI
		m[dirName(server+"__"+uri)] = item{r.Name, r.Raw}
	}
	return m
}

func (v *vm) prompts() map[string]item {
	m := map[string]item{}
	for _, p := range v.mcp.Prompts() {
		m[dirName(p.Name)] = item{p.Name, p.Raw}
	}
	return m
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

type catalog func(*vm) map[string]item

func (list catalog) names(c call) ([]string, error) {
	var names []string
	for name := range list(c.At.vm) {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

func (list catalog) enter(c call, name string) (at, error) {
	_, ok := list(c.At.vm)[name]
	if !ok {
		c.At.vm.mcp.Known(c.Ctx)
		_, ok = list(c.At.vm)[name]
	}
	if !ok {
		if why := c.At.vm.mcp.Missing(c.Ctx, name); why != "" {
			return at{}, fmt.Errorf("%w: %s", fs.ErrNotExist, why)
		}
		return at{}, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	return at{s: c.At.s, vm: c.At.vm, name: name}, nil
}

// find returns the item whose directory the walk went through.
func (list catalog) find(c call) (item, error) {
	it, ok := list(c.At.vm)[c.At.name]
	if !ok {
		return item{}, fmt.Errorf("%w: %s is no longer offered", fs.ErrNotExist, c.At.name)
	}
	return it, nil
}

// field returns one field of what the item's server said of it.
func (list catalog) field(c call, field string) (json.RawMessage, error) {
	it, err := list.find(c)
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(it.raw, &m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", fs.ErrIO, it.name, err)
	}
	return m[field], nil
}

// whole returns all that the item's server said of it.
func (list catalog) whole(c call) (string, error) {
	it, err := list.find(c)
	return string(it.raw) + "\n", err
}

// ask opens an item to be called: do gets its name and the line written.
func (list catalog) ask(c call, flags int, do func(ctx context.Context, name, line string) (string, error)) (fs.Handle, error) {
	it, err := list.find(c)
	if err != nil {
		return nil, err
	}
	return openRPC(flags, func(ctx context.Context, line string) (string, error) { return do(ctx, it.name, line) })
}

var (
	toolCatalog     catalog = (*vm).tools
	resourceCatalog catalog = (*vm).resources
	promptCatalog   catalog = (*vm).prompts
)

func toolNames(c call) ([]string, error)            { return toolCatalog.names(c) }
func enterTool(c call, name string) (at, error)     { return toolCatalog.enter(c, name) }
func resourceNames(c call) ([]string, error)        { return resourceCatalog.names(c) }
func enterResource(c call, name string) (at, error) { return resourceCatalog.enter(c, name) }
func promptNames(c call) ([]string, error)          { return promptCatalog.names(c) }
func enterPrompt(c call, name string) (at, error)   { return promptCatalog.enter(c, name) }
func resourceInfo(c call) (string, error)           { return resourceCatalog.whole(c) }
func promptInfo(c call) (string, error)             { return promptCatalog.whole(c) }

func toolSchema(c call) (string, error) {
	schema, err := toolCatalog.field(c, "inputSchema")
	return string(schema) + "\n", err
}

func toolDescription(c call) (string, error) {
	raw, err := toolCatalog.field(c, "description")
	if err != nil || raw == nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%w: %s: description is not text", fs.ErrIO, c.At.name)
	}
	return text + "\n", nil
}

// asker is what the ledger shows as the process of calls made through the tree.
const asker = "hutch"

func callTool(c call, flags int) (fs.Handle, error) {
	return toolCatalog.ask(c, flags, func(ctx context.Context, name, line string) (string, error) {
		args, err := arguments(line)
		if err != nil {
			return "", err
		}
		return answer(c.At.vm.mcp.Call(ctx, asker, name, args))
	})
}

func callResource(c call, flags int) (fs.Handle, error) {
	return resourceCatalog.ask(c, flags, func(ctx context.Context, name, _ string) (string, error) {
		return answer(c.At.vm.mcp.ReadResource(ctx, asker, name))
	})
}

func callPrompt(c call, flags int) (fs.Handle, error) {
	return promptCatalog.ask(c, flags, func(ctx context.Context, name, line string) (string, error) {
		args, err := arguments(line)
		if err != nil {
			return "", err
		}
		return answer(c.At.vm.mcp.GetPrompt(ctx, asker, name, args))
	})
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

func answer(result json.RawMessage, err error) (string, error) {
	return string(result) + "\n", err
}
