package hostmcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"hutch/fs"
)

type (
	connector struct {
		ID       string            `json:"id"`
		Layer    string            `json:"layer"` // who says it: built-in, corp, user, detected
		File     string            `json:"file"`
		Editable bool              `json:"editable"` // by mcp_add and mcp_delete
		Settings map[string]string `json:"settings"` // as TOML writes them, without secrets
	}
	connectors struct {
		Profile    string      `json:"profile"`
		Connectors []connector `json:"connectors"`
	}
	changed struct {
		Profile string `json:"profile"`
		ID      string `json:"id"`
		File    string `json:"file"`
	}
)

const defaultProfile = "default"

// mcpConnectors lists the MCP servers of a profile, as all its layers together
// say.
func (c *call) mcpConnectors(ctx context.Context) (any, error) {
	profile := c.args.text("profile")
	text, err := c.t.ask(ctx, "profiles/show", profile)
	if err != nil {
		return nil, err
	}
	byID := map[string]*connector{}
	for line := range strings.Lines(text) {
		words, err := fs.LineWords(line, 5)
		if err != nil || len(words) < 5 {
			return nil, fmt.Errorf("%w: profiles/show says %.100q", fs.ErrIO, line)
		}
		rest, ok := strings.CutPrefix(words[0], "mcpServers.")
		if !ok {
			continue
		}
		id, key, _ := strings.Cut(rest, ".")
		if byID[id] == nil {
			file, _, _ := strings.Cut(words[2], ":")
			byID[id] = &connector{ID: strings.Trim(id, `"`), Layer: words[1], File: file, Editable: true, Settings: map[string]string{}}
		}
		o := byID[id]
		o.Settings[key] = words[4]
		dropIn := strings.TrimSuffix(strings.TrimSuffix(o.File, ".json"), ".toml")
		o.Editable = o.Editable && words[3] == "open" && words[1] == "user" && dropIn == profile+".d/"+o.ID
	}
	list := connectors{profile, []connector{}}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list.Connectors = append(list.Connectors, *byID[id])
	}
	return list, nil
}

var properName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// dropIn returns where the connector of a call stands, without the suffix.
func (c *call) dropIn() (string, error) {
	id, profile := c.args.text("id"), c.args.text("profile")
	for what, name := range map[string]string{"connector": id, "profile": profile} {
		if !properName.MatchString(name) {
			return "", fmt.Errorf("%w: %q is not the name of a %s: letters, digits, _ and -", fs.ErrInvalid, name, what)
		}
	}
	return path.Join("profiles", profile+".d", id), nil
}

// mcpAdd writes a drop-in of a profile, or leaves it as it was where that
// does not hold.
func (c *call) mcpAdd(ctx context.Context) (any, error) {
	base, err := c.dropIn()
	if err != nil {
		return nil, err
	}
	if len(c.args.texts("credential_refs")) > 0 {
		return nil, fmt.Errorf("%w: credential_refs: hutch has no store of credentials yet: say bearerToken or headers", fs.ErrUnsupported)
	}
	if _, err := c.t.ask(ctx, "profiles/show", c.args.text("profile")); err != nil { // there is no such profile
		return nil, err
	}
	file := base + ".json"
	text, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{c.args.text("id"): c.server()}}, "", "  ")
	if err != nil {
		return nil, err
	}
	was, err := c.t.text(ctx, file)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := c.t.mkdir(ctx, path.Dir(file)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	err = c.t.store(ctx, file, append(text, '\n'), 0o600)
	if err == nil {
		err = c.t.tell(ctx, "ctl", "reload")
	}
	if err == nil {
		return changed{c.args.text("profile"), c.args.text("id"), file}, nil
	}
	return nil, errors.Join(err, c.whole(ctx, func(ctx context.Context, t *tree) error {
		defer t.tell(ctx, "ctl", "reload") // which the call may have got as far as
		if there {
			return t.store(ctx, file, []byte(was), 0o600)
		}
		return t.remove(ctx, file, false)
	}))
}

// server is the connector in the form of AI clients.
func (c *call) server() map[string]any {
	s := map[string]any{}
	for _, key := range []string{"disabled", "type", "command", "args", "env", "url", "headers", "allowed_tools", "allow", "read"} {
		if c.args.has(key) {
			s[key] = c.args[key]
		}
	}
	if c.args.has("bearerToken") {
		s["bearer_token"] = c.args["bearerToken"]
	}
	return s
}

func (c *call) mcpDelete(ctx context.Context) (any, error) {
	base, err := c.dropIn()
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{".json", ".toml"} {
		if err = c.t.remove(ctx, base+suffix, false); err == nil {
			err = c.t.tell(ctx, "ctl", "reload")
			return changed{c.args.text("profile"), c.args.text("id"), base + suffix}, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: no connector %q was added to profile %q: mcp_connectors tells which files say what", fs.ErrNotExist, c.args.text("id"), c.args.text("profile"))
}
