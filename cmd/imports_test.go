package cmd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says what of hutch each part may import, its own packages apart: the
// arrows of the design, cmd → vmm → {relay, profiles} → mcpd → aggd → fs. A name
// with /... means what is below it too. The longest part that fits a package counts.
var layers = []struct {
	part string
	may  []string
}{
	{"fs", nil},
	{"fs/...", []string{"fs"}},
	{"aggd/...", []string{"fs/..."}},
	{"aggd/confine/takeover", nil},
	{"profiles", []string{"aggd/guard", "aggd/jsonrpc", "aggd/rawjson", "aggd/storage", "aggd/wire", "fs", "fs/quantity", "mcpd/policy", "profiles/reference"}},
	{"profiles/clients", []string{"aggd/rawjson", "fs"}},
	{"profiles/runconfig", []string{"aggd/guard", "aggd/rawjson", "fs", "mcpd/redact", "profiles", "profiles/permission", "profiles/reference"}},
	{"profiles/permission", []string{"aggd/guard", "aggd/rawjson", "aggd/wire", "fs", "profiles"}},
	{"profiles/registry/...", []string{"aggd/guard", "aggd/rawjson", "fs", "profiles", "profiles/runconfig"}},
	{"profiles/reference", []string{"fs", "mcpd/redact"}},
	{"profiles/secrets", []string{"fs", "profiles/reference", "profiles/vault"}},
	{"profiles/vault/...", []string{"aggd/guard", "fs"}},
	{"mcpd/...", []string{"aggd/...", "fs/..."}},
	{"mcpd/redact", nil},
	{"mcpd/seal", []string{"aggd/rawjson"}},
	{"relay/...", []string{"mcpd/frame", "mcpd/seal", "aggd/jsonrpc", "aggd/rawjson", "aggd/trace", "fs/..."}},
	{"vmm/...", []string{"profiles", "relay/...", "fs/..."}},
	{"cmd/aggd", []string{"aggd/..."}},
	{"cmd/locald", []string{"aggd/..."}},
	{"cmd/guest", []string{"relay/...", "fs/accept"}},
	{"cmd/hutch", []string{"cmd/hutch/...", "fs/...", "mcpd/ledger", "mcpd/policy", "mcpd/query/sqltext", "mcpd/redact", "profiles", "profiles/reference", "profiles/registry", "profiles/runconfig"}},
	{"cmd/hutch/hostmcp", []string{"aggd/jsonrpc", "aggd/rawjson", "fs/..."}},
	{"cmd/hutchd/doctor", []string{"vmm", "vmm/cgroup", "fs/..."}},
	{"cmd/hutchd/telemetry", []string{"aggd/trace", "fs", "mcpd", "mcpd/ledger"}},
	{"cmd/hutchd/gateway", []string{"cmd/hutchd/telemetry", "relay", "relay/agent", "mcpd/...", "profiles", "profiles/permission", "aggd/...", "fs/...", "profiles/secrets"}},
	{"cmd/hutchd/workload", []string{"cmd/hutchd/gateway", "cmd/hutchd/sandbox", "mcpd", "mcpd/ledger", "mcpd/policy", "mcpd/vmcp", "profiles/...", "aggd/oauth", "aggd/programs", "aggd/wire", "fs", "aggd/guard", "aggd/rawjson", "vmm/image"}},
	{"cmd/hutchd/sandbox", []string{"cmd/hutchd/gateway", "cmd/hutchd/telemetry", "vmm/...", "relay/...", "mcpd/...", "profiles", "aggd/...", "fs/...", "profiles/secrets"}},
	{"cmd/hutchd/tree", []string{"cmd/hutchd/gateway", "cmd/hutchd/sandbox", "cmd/hutchd/workload", "cmd/hutchd/telemetry", "vmm", "vmm/pack", "profiles/clients", "profiles/reference", "profiles/registry", "profiles/runconfig", "mcpd/...", "aggd/...", "fs/...", "profiles/secrets"}},
	{"cmd/hutchd", []string{"cmd/hutchd/...", "vmm/...", "profiles", "aggd/confine", "fs/..."}},
}

// owners are the packages that alone import a module.
var owners = map[string][]string{
	"aead.dev/minisign":         {"profiles"},
	"filippo.io/age":            {"profiles/secrets"},
	"cel.dev/cel-go":            {"mcpd/policy"},
	"9fans.net/go":              {"fs/scripttest"},
	"github.com/Code-Hex/vz/v3": {"vmm/vz"},
	"github.com/JohannesKaufmann/html-to-markdown/": {"aggd/local"},
	"github.com/cedar-policy/cedar-go":              {"mcpd/policy"},
	"github.com/creack/pty":                         {"relay/agent"},
	"github.com/elastic/go-seccomp-bpf":             {"aggd/confine"},
	"github.com/google/go-containerregistry":        {"vmm/image", "vmm/image/imagetest"},
	"github.com/go-jose/go-jose/v4":                 {"mcpd/attest"},
	"github.com/google/jsonschema-go":               {"cmd/hutch/hostmcp"},
	"github.com/hanwen/go-fuse/v2":                  {"fs/fuse"},
	"github.com/hashicorp/yamux":                    {"relay/line"},
	"github.com/hugelgupf/p9":                       {"cmd/hutch"},
	"github.com/landlock-lsm/go-landlock":           {"aggd/confine"},
	"github.com/mark3labs/mcp-go":                   {"cmd/hutch/hostmcp"},
	"github.com/mdlayher/vsock":                     {"relay/vsock"},
	"github.com/minio/minio-go/v7":                  {"aggd/storage/s3", "aggd/storage/s3/s3test"},
	"github.com/ncruces/go-sqlite3":                 {"mcpd/query"},
	"github.com/pelletier/go-toml/v2":               {"profiles", "profiles/clients"},
	"github.com/tailscale/hujson":                   {"aggd/rawjson", "profiles/clients"},
	"github.com/openbao/openbao/api/v2":             {"profiles/vault"},
	"github.com/prometheus/":                        {"cmd/hutchd/telemetry"},
	"go.opentelemetry.io/":                          {"cmd/hutchd/telemetry"},
	"github.com/santhosh-tekuri/jsonschema/v6":      {"mcpd/policy"},
	"go.etcd.io/bbolt":                              {"mcpd/ledger"},
	"golang.org/x/oauth2":                           {"aggd/oauth"},
	"go.yaml.in/yaml/v3":                            {"mcpd/composite", "mcpd/vmcp", "profiles/clients"},
}

// TestImports holds each import of the program, on every system, against the tables.
func TestImports(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && file != ".."):
			return filepath.SkipDir
		case d.IsDir() && slices.Contains([]string{"vmm/gvisor/runsc"}, strings.TrimPrefix(filepath.ToSlash(file), "../")):
			return filepath.SkipDir // a module of its own
		case filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		for _, spec := range parsed.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			checkImport(t, from, path, used)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for module := range owners {
		if !used[module] {
			t.Errorf("nobody imports %s", module)
		}
	}
}

func checkImport(t *testing.T, from, path string, used map[string]bool) {
	t.Helper()
	if own, ok := strings.CutPrefix(path, "hutch/"); ok {
		if may, ok := layerOf(from); !ok || !slices.ContainsFunc(may, func(p string) bool { return within(own, p) }) {
			t.Errorf("%s imports %s, which runs up or has no row in layers", from, own)
		}
		return
	}
	for module, packages := range owners {
		if path == module || strings.HasPrefix(path, strings.TrimSuffix(module, "/")+"/") {
			used[module] = true
			if !slices.Contains(packages, from) {
				t.Errorf("%s imports %s, which is %s's", from, path, strings.Join(packages, " and "))
			}
		}
	}
}

// layerOf returns what a package may import, with its part's own packages.
func layerOf(from string) (may []string, ok bool) {
	longest := ""
	for _, l := range layers {
		if name := strings.TrimSuffix(l.part, "/..."); within(from, l.part) && (len(name) > len(longest) || !ok) {
			longest, may, ok = name, append(slices.Clip(l.may), l.part), true
		}
	}
	return may, ok
}

// within says whether a package is the part, or below it where that ends in /... .
func within(name, part string) bool {
	below, deep := strings.CutSuffix(part, "/...")
	return name == below || deep && strings.HasPrefix(name, below+"/")
}
