package need

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Conformance returns the start of a command that runs MCP's conformance suite,
// @modelcontextprotocol/conformance, as npm installs it in $HUTCH_NPM with a node
// that is new enough for it.
func Conformance(t testing.TB) []string {
	t.Helper()
	dir := os.Getenv("HUTCH_NPM")
	if dir == "" {
		Missing(t, "HUTCH_NPM does not name a folder with npm packages")
	}
	modules := filepath.Join(dir, "node_modules")
	return []string{File(t, filepath.Join(modules, "node/bin/node")), File(t, filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"))}
}

// ServeConformance runs the server that the conformance suite tests the Go SDK
// with, over streamable HTTP until the test has ended. It returns its URL, and the
// program, which serves on stdin and stdout by itself.
func ServeConformance(t testing.TB, args ...string) (url, program string) {
	t.Helper()
	program = buildConformance(t, "everything-server")
	for range 5 { // somebody may take the port before the server does
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if serveOn(t, "127.0.0.1:"+port, program, args) {
			return "http://127.0.0.1:" + port, program
		}
	}
	t.Fatal("the conformance server does not start")
	return "", ""
}

// ConformanceClient returns the client that the conformance suite tests the Go SDK
// with: it does what the suite's scenario wants at the URL that is
// its argument.
func ConformanceClient(t testing.TB) string { return buildConformance(t, "everything-client") }

func buildConformance(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	Sweep(t, dir)
	program := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/"+name).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return program
}

// serveOn runs a server of TCP and returns whether it listens at address.
func serveOn(t testing.TB, address, program string, args []string) bool {
	cmd := exec.Command(program, append([]string{"-http", address}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-tick.C:
			if c, err := net.Dial("tcp", address); err == nil {
				c.Close()
				return true
			}
		}
	}
}
