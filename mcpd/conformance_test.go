package mcpd

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/wire"
	"hutch/fs/need"
)

// revisions are those that the suite tries.
var revisions = []string{"2025-11-25", "2026-07-28"}

// TestConformanceServer has MCP's conformance suite try a server, and the same
// server behind hutch: what passes directly passes through hutch, but for what
// testdata/conformance.txt names.
func TestConformanceServer(t *testing.T) {
	suite := need.Conformance(t)
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			var args []string
			if revision == "2025-11-25" {
				args = []string{"-stateless=false"} // it asks the client
			}
			url, program := need.ServeConformance(t, args...)
			direct := runSuite(t, suite, "server", "--url", url, "--requirements", revision)
			for name, s := range map[string]wire.Server{"http": {URL: url}, "stdio": {Program: wire.Program{Command: program}}} {
				t.Run(name, func(t *testing.T) {
					s.Name, s.Enabled, s.ConnectTimeout = "ev", true, wire.Duration(patience)
					st := newSite(t, nil, []wire.Server{s})
					through := runSuite(t, suite, "server", "--url", openDoor(t, st, "ev"), "--requirements", revision)
					compareSuites(t, "server "+revision, direct, through)
				})
			}
		})
	}
}

// TestConformanceClient has the suite try a client, and the same client through
// hutch: its servers see what comes of hutch.
func TestConformanceClient(t *testing.T) {
	suite := need.Conformance(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			client := need.ConformanceClient(t)
			direct := runSuite(t, suite, "client", "--command", client, "--requirements", revision)
			through := runSuite(t, suite, "client", "--command", fmt.Sprintf("%s -test.run=^TestConformanceCommand$ -test.timeout=1m %s", self, client), "--requirements", revision)
			compareSuites(t, "client "+revision, direct, through)
		})
	}
}

// TestConformanceCommand is what the suite runs as a client: it runs the one that
// its first argument names, with an endpoint between it and the suite's server.
func TestConformanceCommand(t *testing.T) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "" {
		t.Skip("the conformance suite runs it")
	}
	st := newSite(t, nil, []wire.Server{{Name: "ev", URL: flag.Arg(1), Enabled: true, ConnectTimeout: wire.Duration(patience)}})
	if said, err := exec.CommandContext(t.Context(), flag.Arg(0), openDoor(t, st, "ev")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// A checked is what the suite says of its checks, by scenario and check.
type checked map[string]string

// runSuite runs the suite and returns what it found. One check may be made
// several times: it has passed if all of them have.
func runSuite(t *testing.T, suite []string, args ...string) checked {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(suite[0], append(append(suite[1:len(suite):len(suite)], args...), "-o", dir)...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput() // it fails where a check does
	found := checked{}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if len(files) == 0 {
		files, _ = filepath.Glob(filepath.Join(dir, "*", "*", "checks.json"))
	}
	stamp := regexp.MustCompile(`^(server-|client-)?(.*?)-\d{4}-\d\d-\d\dT.*$`)
	for _, file := range files {
		text, e := os.ReadFile(file)
		var checks []struct{ ID, Status, ErrorMessage string }
		if e == nil {
			e = json.Unmarshal(text, &checks)
		}
		if e != nil {
			t.Fatal(e)
		}
		scenario, _ := filepath.Rel(dir, filepath.Dir(file))
		if m := stamp.FindStringSubmatch(scenario); m != nil {
			scenario = m[2]
		}
		for _, c := range checks {
			key := scenario + " " + c.ID
			if was := found[key]; c.Status == "SUCCESS" && was == "" {
				found[key] = "SUCCESS"
			} else if c.Status == "FAILURE" || c.Status == "WARNING" {
				found[key] = c.Status + " " + c.ErrorMessage
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("the suite found no more than %v: %v\n%s", found, err, said)
	}
	return found
}

// compareSuites compares what passed.
func compareSuites(t *testing.T, what string, direct, through checked) {
	t.Helper()
	text, err := os.ReadFile("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	excepted := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); strings.HasPrefix(line, what+" ") && len(words) > 4 {
			excepted[words[2]+" "+words[3]] = true
		}
	}
	passed := 0
	for _, key := range slices.Sorted(maps.Keys(direct)) {
		if group, _, ok := strings.Cut(key, "/"); ok && excepted[group+"/* *"] {
			continue
		}
		switch {
		case direct[key] != "SUCCESS":
			if through[key] == "SUCCESS" {
				t.Logf("passes only through hutch: %s", key)
			}
		case through[key] == "SUCCESS":
			passed++
			if excepted[key] {
				t.Errorf("%s %s is excepted, and passes", what, key)
			}
		case !excepted[key]:
			t.Errorf("%s %s: %s", what, key, through[key])
		}
		delete(excepted, key)
	}
	for key := range excepted {
		if strings.HasSuffix(key, "*") {
			continue
		}
		t.Errorf("%s %s is excepted, and there is no such check", what, key)
	}
	t.Logf("%s: %d checks pass directly and through hutch", what, passed)
}
