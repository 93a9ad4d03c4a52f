package vz_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The files for macOS need its headers to be compiled. Their types can be checked
// anywhere: go list tells which files there would be, and go/types takes
// what is of C as it stands.

// A listed package is one as go list has it.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Standard          bool
}

// A checker checks packages as they are for another system.
type checker struct {
	files  *token.FileSet
	listed map[string]*listed
	done   map[string]*types.Package
	extra  map[string]string // by package: text of one file more
	wrong  []error           // in packages of our own
}

func newChecker(t *testing.T, arch string, packages ...string) *checker {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap,Standard"}, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=1", "GOFLAGS=")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{files: token.NewFileSet(), listed: map[string]*listed{}, done: map[string]*types.Package{"unsafe": types.Unsafe}, extra: map[string]string{}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &listed{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return c
		} else if err != nil {
			t.Fatal(err)
		}
		c.listed[p.ImportPath] = p
	}
}

// An importer resolves what one package imports.
type importer struct {
	c    *checker
	from *listed
}

func (i importer) Import(path string) (*types.Package, error) {
	if to, ok := i.from.ImportMap[path]; ok {
		path = to
	}
	return i.c.check(path)
}

func (c *checker) check(path string) (*types.Package, error) {
	if p := c.done[path]; p != nil {
		return p, nil
	}
	p := c.listed[path]
	if p == nil {
		return nil, fmt.Errorf("no package %s", path)
	}
	ours := strings.HasPrefix(path, "hutch/")
	files, err := c.parse(p)
	if err != nil {
		return nil, err
	}
	conf := types.Config{
		Importer: importer{c, p}, FakeImportC: true, IgnoreFuncBodies: !ours, Sizes: types.SizesFor("gc", "arm64"),
		Error: func(err error) {
			if ours {
				c.wrong = append(c.wrong, err)
			}
		},
	}
	checked, _ := conf.Check(path, c.files, files, nil) // Error is told
	c.done[path] = checked
	return checked, nil
}

func (c *checker) parse(p *listed) (files []*ast.File, err error) {
	add := func(name string, text any) {
		f, e := parser.ParseFile(c.files, name, text, parser.SkipObjectResolution)
		files, err = append(files, f), errors.Join(err, e)
	}
	for _, name := range append(append([]string{}, p.GoFiles...), p.CgoFiles...) {
		add(filepath.Join(p.Dir, name), nil)
	}
	if text := c.extra[p.ImportPath]; text != "" {
		add("extra.go", text)
	}
	return files, err
}

// TestTypesOnMacOS checks the driver, and hutchd with it, as they are on macOS.
func TestTypesOnMacOS(t *testing.T) {
	for _, arch := range []string{"arm64", "amd64"} {
		c := newChecker(t, arch, "hutch/cmd/hutchd")
		for _, path := range []string{"hutch/vmm/vz", "hutch/cmd/hutchd"} {
			if _, err := c.check(path); err != nil {
				t.Errorf("%s: %v", arch, err)
			}
		}
		for _, err := range c.wrong {
			t.Errorf("%s: %v", arch, err)
		}
		scope := c.done["hutch/vmm/vz"].Scope()
		if scope.Lookup("machine") == nil || scope.Lookup("errNotHere") != nil {
			t.Errorf("%s: the files for macOS were not checked", arch)
		}
	}
}

// TestTypesAreReallyChecked adds a misspelt call of the framework.
func TestTypesAreReallyChecked(t *testing.T) {
	c := newChecker(t, "arm64", "hutch/vmm/vz")
	c.extra["hutch/vmm/vz"] = "package vz\nimport \"github.com/Code-Hex/vz/v3\"\nfunc misspelt(v *vz.VirtualMachine) error { return v.Strat() }\n"
	if _, err := c.check("hutch/vmm/vz"); err != nil {
		t.Fatal(err)
	}
	if len(c.wrong) != 1 || !strings.Contains(c.wrong[0].Error(), "v.Strat undefined") {
		t.Errorf("found %v", c.wrong)
	}
}
