package registry

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hutch/fs/need"
)

// Each built-in entry is a package that npm installs, starts without a key, and
// has the tools that the entry tells of.
func TestBuiltin(t *testing.T) {
	s := open(t, t.TempDir())
	for _, e := range s.List() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			tryEntry(t, e)
		})
	}
}

// TestMemoryStays has the graph of the entry memory be where another version leaves it.
func TestMemoryStays(t *testing.T) {
	e, err := open(t, t.TempDir()).Lookup("memory")
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Launch(Given{})
	if got := l.Env["MEMORY_FILE_PATH"].Text; got != "/workspace/memory.jsonl" || err != nil {
		t.Errorf("it is in %q, %v", got, err)
	}
}

func tryEntry(t *testing.T, e *Entry) {
	l, err := e.Launch(Given{Values: map[string]string{"folder": t.TempDir()}})
	if e.Name != "filesystem" {
		l, err = e.Launch(Given{})
	}
	if err != nil {
		t.Fatal(err)
	}
	pkg := strings.TrimPrefix(l.Run, "npx://")
	args := []string{npmProgram(t, pkg[:strings.LastIndexByte(pkg, '@')], e.Version)}
	for _, a := range l.Args {
		args = append(args, a.Text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "hutch"}, nil)
	c, err := client.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(need.Tool(t, "node"), args...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var tools []string
	for _, tool := range list.Tools {
		tools = append(tools, tool.Name)
	}
	slices.Sort(tools)
	want := slices.Sorted(slices.Values(e.Tools))
	if !slices.Equal(tools, want) {
		t.Errorf("tools %q, and the entry tells of %q", tools, want)
	}
}

// npmProgram returns the program of a package: of $HUTCH_NPM, or installed for the test.
func npmProgram(t *testing.T, name, version string) string {
	t.Helper()
	dir := os.Getenv("HUTCH_NPM")
	if v, _ := readPackage(dir, name); dir == "" || v != version {
		dir = t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, need.Tool(t, "npm"), "install", "--silent", "--no-audit", "--no-fund", "--fetch-retries=1", "--prefix", dir, name+"@"+version)
		if out, err := cmd.CombinedOutput(); err != nil {
			need.Missing(t, "npm cannot install "+name+": "+err.Error()+" "+string(out))
		}
	}
	_, program := readPackage(dir, name)
	return program
}

// readPackage returns the version and the program of an installed package.
func readPackage(dir, name string) (version, program string) {
	root := filepath.Join(dir, "node_modules", name)
	text, _ := os.ReadFile(filepath.Join(root, "package.json"))
	var p struct {
		Version string
		Bin     map[string]string
	}
	json.Unmarshal(text, &p)
	for _, path := range p.Bin {
		program = filepath.Join(root, path)
	}
	return p.Version, program
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
