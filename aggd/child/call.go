package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// Client declares the capabilities an MCP client offers and returns the key for
// its calls. The same set has the same key always; the empty set has "". What
// is declared stays so over restarts of the child.
func (c *Child) Client(p wire.ClientParams) (key string, err error) {
	key, err = p.Key()
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
	c.clients[key] = p
	if c.run != nil { // a later one is told when it starts
		err = c.run.request(c.ids.Add(1), wire.Client, p)
	}
	return key, err
}

// Call makes a request of MCP and returns what the server answered. err tells of
// everything else: a server that is not there, a time limit, a child that died. When
// ctx ends, the server is told that the request is cancelled.
func (c *Child) Call(ctx context.Context, call wire.Call) (wire.Answer, error) {
	a, err := c.send(ctx, wire.RPC, call)
	if a.Error != nil && !slices.ContainsFunc(c.definitions(), func(s wire.Server) bool { return s.Name == call.Server && s.Ours }) {
		a.Error = rawjson.DeleteFunc(a.Error, func(key, data []byte) bool { return string(key) == "data" && speaksForUs(data) })
	}
	return a.Answer, err
}

// speaksForUs reports whether data has a member by whose name an endpoint tells of fates.
func speaksForUs(data []byte) (found bool) {
	rawjson.Walk(data, func(key []byte, _, _ int) { found = found || bytes.HasPrefix(key, []byte("hutch/")) })
	return found
}

// Notify sends a notification of MCP to a server.
func (c *Child) Notify(ctx context.Context, client, server, method string, params json.RawMessage) error {
	_, err := c.send(ctx, wire.Notify, wire.Call{Client: client, Server: server, Method: method, Params: params})
	return err
}

func (c *Child) send(ctx context.Context, method string, call wire.Call) (answer, error) {
	if len(call.Params) > 0 && !json.Valid(call.Params) { // they would be taken for part of the line
		return answer{}, fmt.Errorf("%w: params are not JSON", fs.ErrInvalid)
	}
	r, err := c.current(ctx)
	if err != nil {
		return answer{}, err
	}
	id := c.ids.Add(1)
	return r.exchange(ctx, id, call, encodeCall(id, method, call))
}

// Servers returns the state of each server. Where there is no aggregator, each
// has failed and says so.
func (c *Child) Servers(ctx context.Context) ([]wire.Status, error) {
	line, err := c.ask(ctx, wire.ListServers, nil)
	if err != nil && c.absent() {
		return c.unserved(err), nil
	}
	if err != nil {
		return nil, err
	}
	var servers []wire.Status
	if err := json.Unmarshal(rawjson.Get(line, "servers"), &servers); err != nil {
		return nil, fmt.Errorf("%w: the aggregator's answer to %s: %w", fs.ErrIO, wire.ListServers, err)
	}
	return servers, nil
}

// List returns what all servers have of one list, as a client with that key sees
// them; where there is no aggregator that is nothing.
func (c *Child) List(ctx context.Context, list *wire.List, client string) ([]wire.Item, error) {
	return c.list(ctx, list, map[string]any{"client": client})
}

// Kept is List without what no server was asked for yet: it waits for none.
func (c *Child) Kept(ctx context.Context, list *wire.List, client string) ([]wire.Item, error) {
	return c.list(ctx, list, map[string]any{"client": client, "kept": true})
}

func (c *Child) list(ctx context.Context, list *wire.List, params map[string]any) ([]wire.Item, error) {
	line, err := c.ask(ctx, list.Method, params)
	if err != nil && c.absent() {
		err = nil
	}
	return list.Items(line), err
}

// Refresh replaces the servers; those that did not change stay as they are.
func (c *Child) Refresh(ctx context.Context, servers []wire.Server) error {
	err := c.define(ctx, func() []wire.Server {
		c.host.Rotate(ctx)
		return c.host.Define(servers)
	})
	if err != nil || c.absent() {
		return err
	}
	_, err = c.ask(ctx, wire.Refresh, wire.RefreshParams{Servers: c.told()})
	return err
}

// SetLimits puts other limits in force, for what begins to come from now on.
func (c *Child) SetLimits(ctx context.Context, l wire.Limits) error {
	l = l.WithDefaults()
	if c.limits.Store(&l); c.absent() {
		return nil
	}
	_, err := c.ask(ctx, wire.SetLimits, l)
	return err
}

func (c *Child) inForce() wire.Limits { return *c.limits.Load() }

// ask makes one of the aggregator's own requests.
func (c *Child) ask(ctx context.Context, method string, params any) ([]byte, error) {
	r, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	id := c.ids.Add(1)
	request, err := encode(id, method, params)
	if err != nil {
		return nil, err
	}
	a, err := r.exchange(ctx, id, wire.Call{}, request)
	return a.line, err
}

// absent reports whether there is no program to run.
func (c *Child) absent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Is(c.cause, fs.ErrNotExist)
}

// unserved returns the servers where there is no aggregator to serve them.
func (c *Child) unserved(err error) []wire.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []wire.Status
	for _, s := range c.defined {
		all = append(all, s.Status(wire.Failed, err))
	}
	return all
}
