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
		ID       string         `json:"id"`
		Layer    string         `json:"layer"` // who says it: built-in, corp, user, detected
		File     string         `json:"file"`
		Editable bool           `json:"editable"` // by mcp_add and mcp_delete
		Settings map[string]any `json:"settings"` // without secrets
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
		key := keyParts(rest)
		id := key[0]
		if byID[id] == nil {
			file, _, _ := strings.Cut(words[2], ":")
			byID[id] = &connector{ID: id, Layer: words[1], File: file, Editable: true, Settings: map[string]any{}}
		}
		o := byID[id]
		put(o.Settings, key[1:], words[4])
		dropIn := strings.TrimSuffix(strings.TrimSuffix(o.File, ".json"), ".toml")
		o.Editable = o.Editable && words[3] == "open" && words[1] == "user" && dropIn == profile+".d/"+o.ID
	}
	list := connectors{profile, []connector{}}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list.Connectors = append(list.Connectors, *byID[id])
	}
	return list, nil
}

// keyParts returns the names of a dotted key of TOML.
func keyParts(key string) (parts []string) {
	for {
		var name string
		if from := json.NewDecoder(strings.NewReader(key)); strings.HasPrefix(key, `"`) && from.Decode(&name) == nil {
			parts, key = append(parts, name), strings.TrimPrefix(key[from.InputOffset():], ".")
		} else {
			name, key, _ = strings.Cut(key, ".")
			parts = append(parts, name)
		}
		if key == "" {
			return parts
		}
	}
}

// put adds a value, as TOML writes it, to settings at a key. What JSON writes otherwise stays a
// text.
func put(settings map[string]any, key []string, literal string) {
	if len(key) == 0 {
		return
	}
	for ; len(key) > 1; key = key[1:] {
		inner, ok := settings[key[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			settings[key[0]] = inner
		}
		settings = inner
	}
	var value any
	if json.Unmarshal([]byte(literal), &value) != nil {
		value = literal
	}
	settings[key[0]] = value
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
		err = c.reload(ctx, c.t)
	}
	if err == nil {
		return changed{c.args.text("profile"), c.args.text("id"), file}, nil
	}
	return nil, errors.Join(err, c.whole(ctx, func(ctx context.Context, t *tree) error {
		defer c.reload(ctx, t) // which the call may have got as far as
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

// reload has the profile of the call be read anew, whatever is wrong with others.
func (c *call) reload(ctx context.Context, t *tree) error {
	return t.tell(ctx, "ctl", "reload "+fs.Quote(c.args.text("profile")))
}

func (c *call) mcpDelete(ctx context.Context) (any, error) {
	base, err := c.dropIn()
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{".json", ".toml"} {
		if err = c.t.remove(ctx, base+suffix, false); err == nil {
			if err = c.reload(ctx, c.t); err != nil {
				err = fmt.Errorf("%s is deleted; of the profile as it is now: %w", base+suffix, err)
			}
			return changed{c.args.text("profile"), c.args.text("id"), base + suffix}, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: no connector %q was added to profile %q: mcp_connectors tells which files say what", fs.ErrNotExist, c.args.text("id"), c.args.text("profile"))
}
