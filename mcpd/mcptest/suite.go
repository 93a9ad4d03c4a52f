package mcptest

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Checked is what the suite says of its checks, by scenario and check.
type Checked map[string]string

// Run runs the suite and returns what it found. One check may be made
// several times: it has passed if all of them have.
func Run(t testing.TB, suite []string, args ...string) Checked {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(suite[0], append(append(suite[1:len(suite):len(suite)], args...), "-o", dir)...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput() // it fails where a check does
	found := Checked{}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	deeper, _ := filepath.Glob(filepath.Join(dir, "*", "*", "checks.json"))
	stamp := regexp.MustCompile(`^(server-|client-)?(.*?)-\d{4}-\d\d-\d\dT.*$`)
	for _, file := range append(files, deeper...) {
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

// Compare reports what passes directly and not through something else, but for
// what testdata/conformance.txt names, which has a line for each exception: two
// words that are what was tried, scenario, check, and the reason. A * stands for any
// text but a slash. Where nothing is tried directly, all has to pass.
func Compare(t testing.TB, what string, direct, through Checked) {
	t.Helper()
	excepted := exceptions(t, what)
	alone := direct == nil
	if alone {
		direct = through
	}
	passed := 0
	for _, key := range slices.Sorted(maps.Keys(direct)) {
		var fits []string
		for pattern := range excepted {
			if ok, _ := path.Match(pattern, key); ok {
				fits = append(fits, pattern)
			}
		}
		switch own := direct[key] == "SUCCESS"; {
		case through[key] == "SUCCESS":
			if passed++; !own {
				t.Logf("passes only through hutch: %s", key)
			}
			if slices.Contains(fits, key) {
				t.Errorf("%s %s is excepted, and passes", what, key)
			}
		case fits != nil:
			for _, pattern := range fits {
				excepted[pattern] = true
			}
		case own || alone:
			t.Errorf("%s %s: %s", what, key, through[key])
		}
	}
	for pattern, used := range excepted {
		if !used {
			t.Errorf("%s %s is excepted, and nothing of it fails", what, pattern)
		}
	}
	t.Logf("%s: %d checks pass", what, passed)
}

// exceptions returns the checks that are excepted, none of them met yet.
func exceptions(t testing.TB, what string) map[string]bool {
	text, err := os.ReadFile("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	excepted := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); strings.HasPrefix(line, what+" ") && len(words) > 4 {
			excepted[words[2]+" "+words[3]] = false
		}
	}
	return excepted
}
