package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"hutch/profiles/registry"
)

// What an entry says stands on a line each, and none of it moves the cursor.
func TestDescribeEntry(t *testing.T) {
	got := describeEntry(&registry.Entry{
		Name: "a/b", Description: "two\nlines \x1b[2J", Transport: "stdio", Run: "npx://b@1",
		Args: []registry.Argument{
			{Input: registry.Input{Value: "serve"}},
			{Flag: "--mode", Input: registry.Input{Name: "--mode", Default: "ro", Choices: []string{"ro", "rw"}}},
		},
		Env:     []registry.Input{{Name: "KEY", Required: true, Secret: true, Description: "of the forge"}},
		Headers: []registry.Input{{Name: "Authorization", Value: "Bearer {key}", Variables: []registry.Input{{Name: "key", Secret: true}}}},
		Tools:   []string{"x", "y"}, Signature: "none", Source: "builtin", Provenance: &registry.Provenance{RepositoryURI: "https://a.example", SignerIdentity: "s"},
	})
	want := `name         a/b
description  two\nlines ?[2J
transport    stdio
run          npx://b@1
argument     serve
argument     --mode (or else ro) (one of ro, rw)
env          KEY (required) (secret) of the forge
header       Authorization=Bearer {key}
header       key (secret)
tools        x y
provenance   https://a.example s
signature    none
source       builtin
`
	if got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}

// A list that breaks off is not one that has ended.
func TestEntriesBreakOff(t *testing.T) {
	if err := printEntries(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(errLost))); !errors.Is(err, errLost) {
		t.Error(err)
	}
}
