// Package clients puts MCP servers of hutch into the configuration files of AI
// clients, takes them out again, and puts the files back as they were.
//
// What else stands in a file is kept byte for byte, comments too. A file is
// only touched if it is the user's own, and only as that user. Files are read
// anew each time: nothing is known of them but what they say, and the backup.
package clients

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"

	"hutch/fs"
)

// A Client is a row of the table of AI clients.
type Client struct {
	Name string
	file string // below the home of the user
	mac  string // file on macOS; "": the same
	sign string // file or folder below home that shows that the client is there; "": the folder of file
	form *format
	key  string // at the top of the file, which has the servers
	list bool   // they are a list, each with its name; else a table by name
	says shape

	head  string // what a file has to say at the least, in lines
	older string // file below home that the client reads as long as file is not there
}

const (
	code    = ".config/Code/User/"
	macCode = "Library/Application Support/Code/User/"
	cline   = "globalStorage/saoudrizwan.claude-dev/"
	roo     = "globalStorage/rooveterinaryinc.roo-cline/"
)

// table has the clients in the order of their names. Where a client does not
// say otherwise, its file is in the same place on every system.
var table = []Client{
	{Name: "amp-cli", file: ".config/amp/settings.json", form: &jsonForm, key: "amp.mcpServers", says: plain},
	{Name: "antigravity", file: ".gemini/antigravity/mcp_config.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "claude-code", file: ".claude.json", sign: ".claude", form: &jsonForm, key: "mcpServers", says: typed},
	{Name: "claude-desktop", file: ".config/Claude/claude_desktop_config.json", mac: "Library/Application Support/Claude/claude_desktop_config.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "cline", file: code + cline + "settings/cline_mcp_settings.json", mac: macCode + cline + "settings/cline_mcp_settings.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "cline-cli", file: ".cline/data/settings/cline_mcp_settings.json", sign: ".cline/data", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "codex", file: ".codex/config.toml", form: &tomlForm, key: "mcp_servers", says: plain},
	{Name: "continue", file: ".continue/config.yaml", form: &yamlForm, key: "mcpServers", list: true, says: plain, head: "name: Main Config\nversion: 1.0.0\nschema: v1\n", older: ".continue/config.json"},
	{Name: "copilot-cli", file: ".copilot/mcp-config.json", form: &jsonForm, key: "mcpServers", says: copilot},
	{Name: "cursor", file: ".cursor/mcp.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "factory", file: ".factory/mcp.json", form: &jsonForm, key: "mcpServers", says: typed},
	{Name: "gemini-cli", file: ".gemini/settings.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "goose", file: ".config/goose/config.yaml", form: &yamlForm, key: "extensions", says: goose},
	{Name: "kimi-cli", file: ".kimi/mcp.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "kiro", file: ".kiro/settings/mcp.json", sign: ".kiro", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "lm-studio", file: ".lmstudio/mcp.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "mistral-vibe", file: ".vibe/config.toml", form: &tomlForm, key: "mcp_servers", list: true, says: vibe},
	{Name: "opencode", file: ".config/opencode/opencode.json", form: &jsonForm, key: "mcp", says: opencode},
	{Name: "qoder", file: ".qoder/mcp.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "roo-code", file: code + roo + "settings/mcp_settings.json", mac: macCode + roo + "settings/mcp_settings.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "trae", file: ".config/Trae/User/mcp.json", mac: "Library/Application Support/Trae/User/mcp.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "vscode", file: code + "mcp.json", mac: macCode + "mcp.json", form: &jsonForm, key: "servers", says: typed},
	{Name: "vscode-insider", file: ".config/Code - Insiders/User/mcp.json", mac: "Library/Application Support/Code - Insiders/User/mcp.json", form: &jsonForm, key: "servers", says: typed},
	{Name: "vscode-server", file: ".vscode-server/data/User/mcp.json", sign: ".vscode-server", form: &jsonForm, key: "servers", says: typed},
	{Name: "windsurf", file: ".codeium/windsurf/mcp_config.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "windsurf-jetbrains", file: ".codeium/mcp_config.json", form: &jsonForm, key: "mcpServers", says: plain},
	{Name: "zed", file: ".config/zed/settings.json", form: &jsonForm, key: "context_servers", says: plain},
}

// Names returns the names of the clients, sorted.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].Name
	}
	return names
}

// Find returns the client called name.
func Find(name string) (*Client, error) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], nil
		}
	}
	return nil, fmt.Errorf("%w: client %q: see clients", fs.ErrNotExist, name)
}

// path returns the client's file below the home of a user.
func (c *Client) path() string {
	if runtime.GOOS == "darwin" && c.mac != "" {
		return c.mac
	}
	return c.file
}

// mark returns what below the home of a user shows that the client is there, beside its
// file.
func (c *Client) mark() string { return cmp.Or(c.sign, filepath.Dir(c.path())) }

// shown is the client's file as people call it.
func (c *Client) shown() string { return "~/" + c.path() }
