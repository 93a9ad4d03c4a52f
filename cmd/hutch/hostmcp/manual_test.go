package hostmcp

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// entry is the line by which the manual begins to tell of a tool: its name and
// parameters, those that can be left out in brackets, with their defaults.
func (t tool) entry() string {
	var b strings.Builder
	for _, p := range t.params {
		word := `\fI` + p.name + `\fP`
		if p.def != nil {
			word += fmt.Sprintf("=%v", p.def)
		}
		if !p.must {
			word = "[" + word + "]"
		}
		b.WriteString(" " + strings.ReplaceAll(word, "-", `\-`))
	}
	if b.Len() == 0 {
		return ".B " + t.name
	}
	return ".BR " + t.name + ` "` + b.String() + `"`
}

// TestManual ties hutch-mcp.1 to the table of tools.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../hutch-mcp.1")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n.SH TOOLS\n")
	section, _, _ = strings.Cut(section, "\n.SH ")
	inPage := map[string]bool{}
	for _, entry := range strings.Split(section, "\n.TP\n")[1:] {
		line, rest, _ := strings.Cut(entry, "\n")
		if inPage[line] = true; strings.TrimSpace(rest) == "" {
			t.Errorf("the page tells nothing of %s", line)
		}
	}
	for _, tool := range tools() {
		if !inPage[tool.entry()] {
			t.Errorf("the page has no entry\n.TP\n%s\n%s", tool.entry(), strings.ReplaceAll(tool.doc, ". ", ".\n"))
		}
		delete(inPage, tool.entry())
	}
	for line := range inPage {
		t.Errorf("the page has an entry that is no tool's: %s", line)
	}
}
