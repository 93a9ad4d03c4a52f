package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// Client declares the capabilities an MCP client offers and returns the key for
// its calls. The same set has the same key always; the empty set has "". What
// is declared stays so over restarts of the child.
func (c *Child) Client(ctx context.Context, capabilities json.RawMessage) (key string, err error) {
	key, err = wire.ClientKey(capabilities)
	if err != nil {
		return "", fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	if key == "" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.clients[key]; known {
		return key, nil
	}
	if len(c.clients) >= wire.MaxClients {
		return "", fmt.Errorf("%w: more than %d sets of client capabilities", fs.ErrNoSpace, wire.MaxClients)
	}
	c.clients[key] = capabilities
	if c.run != nil { // a later one is told when it starts
		err = c.run.request(c.ids.Add(1), wire.Client, wire.ClientParams{Capabilities: capabilities})
	}
	return key, err
}

// Call makes a request of MCP and returns what the server answered, byte for
// byte: a result or an error object. err tells of everything else: a server
// that is not there, a time limit, a child that died. When ctx ends, the server is
// told that the request is cancelled.
func (c *Child) Call(ctx context.Context, call wire.Call) (result, rpcError json.RawMessage, err error) {
	if err := valid(call.Params); err != nil {
		return nil, nil, err
	}
	r, err := c.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	id := c.ids.Add(1)
	line, err := r.exchange(ctx, id, call, encodeCall(id, wire.RPC, call))
	if err != nil {
		return nil, nil, err
	}
	if err := errorOf(line); err != nil {
		return nil, nil, err
	}
	response := rawjson.Get(line, "response")
	return rawjson.Get(response, "result"), rawjson.Get(response, "error"), nil
}

// Notify sends a notification of MCP to a server.
func (c *Child) Notify(ctx context.Context, client, server, method string, params json.RawMessage) error {
	if err := valid(params); err != nil {
		return err
	}
	r, err := c.current(ctx)
	if err != nil {
		return err
	}
	id := c.ids.Add(1)
	call := wire.Call{Client: client, Server: server, Method: method, Params: params}
	line, err := r.exchange(ctx, id, call, encodeCall(id, wire.Notify, call))
	if err != nil {
		return err
	}
	return errorOf(line)
}

// Servers returns the state of each server. Where there is no aggregator, each
// has failed and says so.
func (c *Child) Servers(ctx context.Context) ([]wire.Status, error) {
	servers, err := list[wire.Status](ctx, c, wire.ListServers, "servers", "")
	if err != nil && c.absent() {
		return c.unserved(err), nil
	}
	return servers, err
}

// Tools returns the tools of all servers as a client with that key sees them.
func (c *Child) Tools(ctx context.Context, client string) ([]wire.Tool, error) {
	return catalog[wire.Tool](ctx, c, wire.ListTools, "tools", client)
}

// Resources returns the resources of all servers.
func (c *Child) Resources(ctx context.Context, client string) ([]wire.Resource, error) {
	return catalog[wire.Resource](ctx, c, wire.ListResources, "resources", client)
}

// Templates returns the resource templates of all servers.
func (c *Child) Templates(ctx context.Context, client string) ([]wire.Template, error) {
	return catalog[wire.Template](ctx, c, wire.ListTemplates, "templates", client)
}

// Prompts returns the prompts of all servers.
func (c *Child) Prompts(ctx context.Context, client string) ([]wire.Prompt, error) {
	return catalog[wire.Prompt](ctx, c, wire.ListPrompts, "prompts", client)
}

// Refresh replaces the servers; those that did not change stay as they are.
func (c *Child) Refresh(ctx context.Context, servers []wire.Server) error {
	if servers == nil {
		servers = []wire.Server{} // no servers are an empty array to the aggregator, not null
	}
	c.mu.Lock()
	c.servers = servers
	missing := c.missing
	c.mu.Unlock()
	if missing {
		return nil
	}
	_, err := c.ask(ctx, wire.Refresh, wire.RefreshParams{Servers: servers})
	return err
}

// ask makes one of the aggregator's own requests.
func (c *Child) ask(ctx context.Context, method string, params any) ([]byte, error) {
	r, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	id := c.ids.Add(1)
	q := struct {
		ID     uint64 `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}{id, method, params}
	request, err := rawjson.Encode(q)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", fs.ErrInvalid, method, err)
	}
	line, err := r.exchange(ctx, id, wire.Call{}, request)
	if err != nil {
		return nil, err
	}
	return line, errorOf(line)
}

// catalog lists what servers have; where there is no aggregator they have nothing.
func catalog[T any](ctx context.Context, c *Child, method, field, client string) ([]T, error) {
	items, err := list[T](ctx, c, method, field, client)
	if err != nil && c.absent() {
		return nil, nil
	}
	return items, err
}

func list[T any](ctx context.Context, c *Child, method, field, client string) ([]T, error) {
	line, err := c.ask(ctx, method, map[string]string{"client": client})
	if err != nil {
		return nil, err
	}
	var items []T
	if err := json.Unmarshal(rawjson.Get(line, field), &items); err != nil {
		return nil, fmt.Errorf("%w: the aggregator's answer to %s: %w", fs.ErrIO, method, err)
	}
	return items, nil
}

// absent reports whether there is no program to run.
func (c *Child) absent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missing
}

func (c *Child) unserved(err error) []wire.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []wire.Status
	for _, s := range c.servers {
		all = append(all, wire.Status{
			Name: s.Name, URL: s.URL, Enabled: s.Enabled, Source: s.Source, IsStdio: s.Stdio(),
			State: wire.Failed, Error: err.Error(),
		})
	}
	return all
}

// errorOf returns the error that line tells of, if any.
func errorOf(line []byte) error {
	raw := rawjson.Get(line, "error")
	if raw == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", fs.ErrIO, errors.New(rawjson.String(raw)))
}
