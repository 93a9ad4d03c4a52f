package sqltext

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1;":                          "SELECT 1;",
		"SELECT\n1\n;":                       "SELECT\n1\n;",
		"SELECT ';\n';":                      "SELECT ';\n';",
		"SELECT 'it''s;\n', \";\n\", `;\n`;": "SELECT 'it''s;\n', \";\n\", `;\n`;",
		"SELECT [;\n];":                      "SELECT [;\n];",
		"SELECT 1 -- ';\n;":                  "SELECT 1 -- ';\n;",
		"SELECT 1 /*/;\n';*/ ; -- done":      "SELECT 1 /*/;\n';*/ ; -- done",
		"SELECT 1; /* and\n */":              "SELECT 1; /* and\n */",
		"SELECT 1; SELECT 2\n;":              "SELECT 1; SELECT 2\n;",
		";":                                  ";",
		"SELECT 1":                           "",
		"SELECT ';":                          "",
		"SELECT 1 ; /* ;":                    "",
		"":                                   "",
		strings.Repeat("x", Max):             strings.Repeat("x", Max),
	} {
		var of Text
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if whole := of.Add(line); whole != (i == len(lines)-1 && want != "") {
				t.Errorf("%.40q: after line %d: whole is %v", text, i, whole)
			}
		}
		if got := of.Take(); want != "" && got != want {
			t.Errorf("%.40q: got %.40q", text, got)
		}
		if of.Take() != "" || of.Add("'") || of.Add(";") || !of.Add("';") {
			t.Errorf("%.40q: something is left", text)
		}
	}
}
