package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/mcpd/pins"
	"hutch/mcpd/redact"
)

func mcpVerbs() []verb {
	return []verb{
		{Name: "reload", Max: 0, Do: reloadMCP, Doc: "read the VM's profile anew and connect to what it names"},
		{Name: "approve", Args: "TOOL|SERVER [DIGEST]", Min: 1, Max: 2, Do: approveTool, Doc: "let through a tool that is held back, if it still has the digest, or all of a server"},
		{Name: "revoke", Args: "SESSION|all", Min: 1, Max: 1, Do: revokeSession, Doc: "take the token of an attested key, or of all, no more"},
	}
}

func reloadMCP(c call, _ []string) error { return c.At.gw.Reload(c.Ctx) }

func revokeSession(c call, args []string) error {
	if c.At.gw.Attest == nil {
		return fmt.Errorf("%w: no keys are attested here: those of a VM's programs are", fs.ErrUnsupported)
	}
	return c.At.gw.Attest.Revoke(args[0])
}

func approveTool(c call, args []string) error {
	return c.At.gw.Approve(c.Ctx, caller(c), args[0], strings.Join(args[1:], ""))
}

func mcpSettings(c call) (string, error) {
	attested := ""
	if c.At.gw.Attest != nil {
		attested = c.At.gw.Attest.Text()
	}
	return fmt.Sprintf("sessions %d\n", c.At.gw.MCP.Sessions()) + attested + heldText(c.At.gw.MCP.Held(), c.At.gw.Known), nil
}

// maxHeld is how many tools heldText has a line for.
const maxHeld = 256

// heldText is a line for each tool that is held back: its name, without the secrets that
// known knows, its digest, and why.
func heldText(list []wire.Item, known func(string) string) string {
	var b strings.Builder
	for _, it := range list[:min(len(list), maxHeld)] {
		fmt.Fprintf(&b, "held %s %s %s\n", fs.QuoteLine(known(it.Name)), pins.DigestOf(it.Held.Said), fs.QuoteLine(it.Held.Why))
	}
	if n := len(list) - maxHeld; n > 0 {
		fmt.Fprintf(&b, "more %d\n", n)
	}
	return b.String()
}

func mcpServers(c call) (string, error) { return c.At.gw.MCP.ServersText(), nil }

// A catalog is one of the lists of what the servers of a VM offer. It comes
// from memory: looking at it asks no server, but for a name that is looked up
// before the servers of a new machine were asked at all.
type catalog struct {
	list *wire.List
	ask  func(c call, ctx context.Context, name, line string) (json.RawMessage, error)
}

var (
	tools     = catalog{wire.Tools, withArguments((*mcpd.Endpoint).Call)}
	resources = catalog{wire.Resources, readResource}
	prompts   = catalog{wire.Prompts, withArguments((*mcpd.Endpoint).GetPrompt)}
)

// dir returns the name of an item's directory: as the agent names it, but for a
// resource, which it names by a URI, and for a secret that is known in it.
func (list catalog) dir(c call, it wire.Item) string {
	name := it.Name
	if list.list == wire.Resources {
		name = jsonrpc.Name(it.Server, it.Original)
	}
	return fs.FileName(c.At.gw.Known(name))
}

// agentName returns what the agent calls the item of that directory, if its name
// was not cut.
func (list catalog) agentName(dir string) string {
	name, _ := url.PathUnescape(dir)
	if server, own, ok := jsonrpc.SplitName(name); ok && list.list == wire.Resources {
		return jsonrpc.URI(server, own)
	}
	return name
}

func withArguments(do func(e *mcpd.Endpoint, ctx context.Context, who mcpd.Caller, name string, args json.RawMessage) (json.RawMessage, error)) func(call, context.Context, string, string) (json.RawMessage, error) {
	return func(c call, ctx context.Context, name, line string) (json.RawMessage, error) {
		args, err := arguments(line)
		if err != nil {
			return nil, err
		}
		return do(c.At.gw.MCP, ctx, caller(c), name, args)
	}
}

func readResource(c call, ctx context.Context, name, _ string) (json.RawMessage, error) {
	return c.At.gw.MCP.ReadResource(ctx, caller(c), name)
}

// caller is who the endpoint is told asks.
func caller(c call) mcpd.Caller {
	return mcpd.Caller{Process: gateway.Asker, Principal: personOf(c.Who)}
}

func (list catalog) names(c call) ([]string, error) {
	if err := begun(c); err != nil {
		return nil, err
	}
	var names []string
	for _, it := range c.At.gw.MCP.Items(list.list) {
		names = append(names, list.dir(c, it))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// item returns the item whose directory is called name. Of many items each is
// looked up in turn, so all are gone through only for a name that was cut, or that has
// a secret.
func (list catalog) item(c call, name string) (wire.Item, bool) {
	agents := list.agentName(name)
	it, ok := c.At.gw.MCP.Item(list.list, agents)
	if ok && list.dir(c, it) == name {
		return it, true
	}
	if len(name) < fs.MaxName && !strings.Contains(agents, redact.Mark) {
		return it, false
	}
	items := c.At.gw.MCP.Items(list.list)
	i := slices.IndexFunc(items, func(it wire.Item) bool { return list.dir(c, it) == name })
	if i < 0 {
		return it, false
	}
	return items[i], true
}

func (list catalog) enter(c call, name string) (at, error) {
	if err := begun(c); err != nil {
		return at{}, err
	}
	_, ok := list.item(c, name)
	if !ok {
		c.At.gw.MCP.Known(c.Ctx)
		_, ok = list.item(c, name)
	}
	if !ok {
		return at{}, fmt.Errorf("%w: %s", fs.ErrNotExist, cmp.Or(c.At.gw.MCP.Missing(c.Ctx, name), name))
	}
	found := c.At
	found.name = name
	return found, nil
}

// find returns the item whose directory the walk went through.
func (list catalog) find(c call) (wire.Item, error) {
	it, ok := list.item(c, c.At.name)
	if !ok {
		return it, fmt.Errorf("%w: %s", fs.ErrNotExist, cmp.Or(c.At.gw.MCP.Missing(c.Ctx, c.At.name), c.At.name+" is no longer offered"))
	}
	return it, nil
}

// info returns all that the item's server said of it, without the secrets that it has.
func (list catalog) info(c call) (string, error) {
	it, err := list.find(c)
	return c.At.gw.Known(string(it.Raw)) + "\n", err
}

// open opens an item to be called: the line written is what it is asked.
func (list catalog) open(c call, flags int) (fs.Handle, error) {
	it, err := list.find(c)
	if err != nil {
		return nil, err
	}
	return c.At.s.openRPC(flags, func(ctx context.Context, line string) (string, error) {
		result, err := list.ask(c, ctx, it.Name, line)
		return string(result) + "\n", err
	})
}

func toolSchema(c call) (string, error) {
	it, err := tools.find(c)
	return c.At.gw.Known(string(rawjson.Get(it.Raw, "inputSchema"))) + "\n", err
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
	return c.At.gw.Known(text) + "\n", nil
}

func toolApproved(c call) (string, error) {
	it, err := tools.find(c)
	if err != nil {
		return "", err
	}
	return c.At.gw.MCP.Approved(it)
}

func toolOffered(c call) (string, error) {
	it, err := tools.find(c)
	if err != nil {
		return "", err
	}
	return c.At.gw.MCP.Offered(it)
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
