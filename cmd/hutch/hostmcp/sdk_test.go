package hostmcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestJavaScript has the official SDK for JavaScript use the program.
func TestJavaScript(t *testing.T) {
	node, everything := need.Everything(t)
	bin := need.Programs(t)
	dir := t.TempDir()
	modules, _, _ := strings.Cut(everything, "/@modelcontextprotocol/") // beside which a script finds the SDK
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(node, filepath.Join(dir, "client.mjs"), filepath.Join(bin, "hutch"), newSite(t).addr, filepath.Join(dir, "told")).CombinedOutput()
	want := fmt.Sprintf(`{"server":"hutch","tools":%d}
{"updated":"hutch:///status"}
{"stdout":"hello\n","progress":["hello\n"]}
{"aborted":"MCP error -32001: enough"}
{"isError":true,"text":"file does not exist: no vm \"none\""}
{"text":"js\n"}
{"templates":true}
`, len(tools()))
	if err != nil || string(out) != want {
		t.Errorf("%v, %s", err, out)
	}
}
