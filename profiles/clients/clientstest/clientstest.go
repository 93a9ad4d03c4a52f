// Package clientstest makes homes of users who have AI clients, for tests.
package clientstest

import (
	"os"
	"path/filepath"
)

// files are what clients have there: a file with comments, one in TOML, and one that
// does not parse. Other clients are not there.
var files = map[string]string{
	".cursor/mcp.json":        "{\n  // mine\n  \"mcpServers\": {\"dev\": {\"command\": \"x\"}}\n}\n",
	".codex/config.toml":      "model = \"m\"\n",
	".kiro/settings/mcp.json": "{",
}

// Lay makes such a home.
func Lay(home string) error {
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
