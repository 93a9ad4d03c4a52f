package need

import (
	"os"
	"path/filepath"
	"testing"
)

// NPM returns node and the program of a package of MCP servers, dist/index.js, as npm
// installs it in $HUTCH_NPM.
func NPM(t testing.TB, name string) (nodejs, program string) {
	t.Helper()
	dir := os.Getenv("HUTCH_NPM")
	if dir == "" {
		Missing(t, "HUTCH_NPM does not name a folder with npm packages")
	}
	return Tool(t, "node"), File(t, filepath.Join(dir, "node_modules", name, "dist/index.js"))
}
