package ledger

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPage holds the tables and columns of mcp.5 against those that there are.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("mcp.5")
	if err != nil {
		t.Fatal(err)
	}
	column := regexp.MustCompile(`(?m)^\.BR (\w+) " (TEXT|INTEGER|REAL)"$`)
	for _, table := range Tables {
		_, page, ok := strings.Cut(string(text), "\n.SS "+table.Name+"\n")
		if !ok {
			t.Errorf("mcp.5 has no section %s", table.Name)
		}
		page, _, _ = strings.Cut(page, "\n.SS ")
		var told []Column
		for _, m := range column.FindAllStringSubmatch(page, -1) {
			told = append(told, Column{m[1], m[2]})
		}
		if own := table.Columns[2:]; !slices.Equal(told, own) {
			t.Errorf("mcp.5 has of %s\n%v, the table\n%v", table.Name, told, own)
		}
	}
}
