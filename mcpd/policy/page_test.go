package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage holds the manual's names of events against those that there are.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../profiles/policy.5")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\n.SS Events\n")
	page, _, _ = strings.Cut(page, "\n.SS What is decided\n")
	page = strings.ReplaceAll(page, "has(mcp.request.arguments.path)", "")
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`(?m)^\.BR? ([a-z_.]+)`).FindAllStringSubmatch(page, -1) {
		told[strings.TrimSuffix(name[1], ".")] = true
	}
	for _, f := range families {
		if !told[f.on] {
			t.Errorf("the page does not tell of the event %s", f.on)
		}
		delete(told, f.on)
	}
	for name := range values {
		if !told[name] {
			t.Errorf("the page does not tell of %s", name)
		}
		delete(told, name)
	}
	for name := range told {
		if strings.Contains(name, ".") && name != cmdRun {
			t.Errorf("the page tells of %s, which there is not", name)
		}
	}
}
