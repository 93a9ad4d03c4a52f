package runconfig

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section returns what stands in a section of the page.
func section(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("server.5")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n.SH "+name+"\n")
	if !ok {
		t.Fatalf("server.5 has no section %s", name)
	}
	text, _, _ = strings.Cut(text, "\n.SH ")
	return text
}

// TestPage ties the page to the tables: every field has its place in it, and every
// entry is a field, and the states are there.
func TestPage(t *testing.T) {
	text := section(t, "CONFIG")
	var entries []string
	for _, m := range regexp.MustCompile(`(?m)^\.TP\n\.B (\S+)$`).FindAllStringSubmatch(text, -1) {
		entries = append(entries, m[1])
		if f := findField(strings.Split(m[1], ".")); f == nil || f.use != acts {
			t.Errorf("server.5 has %s, which is no field that hutch acts upon", m[1])
		}
	}
	for _, f := range fields {
		switch told := strings.Contains(text, " "+f.path+" ") || strings.Contains(text, " "+f.path+"\n"); {
		case strings.Contains(f.path, "*"):
		case f.use == acts && !slices.Contains(entries, f.path):
			t.Errorf("%s is not in server.5", f.path)
		case f.use != acts && !told && !(f.use == kept && strings.HasPrefix(f.path, "remote_auth_config.")) && f.path != "hutch" && f.path != "header_forward":
			t.Errorf("%s is not in server.5", f.path)
		}
	}
	states := section(t, "STATES")
	for _, s := range States {
		if !regexp.MustCompile(`(?m)^\.BR? ` + string(s) + `\b`).MatchString(states) {
			t.Errorf("state %s is not in server.5", s)
		}
	}
	for _, s := range schemes {
		if s.text != "http://" && !strings.Contains(section(t, "DESCRIPTION"), "\n.TP\n.B "+s.text) {
			t.Errorf("%s is not in server.5", s.text)
		}
	}
}

// TestPageExamples reads the examples of the page.
func TestPageExamples(t *testing.T) {
	examples := regexp.MustCompile(`(?s)\n\.EX\n(.*?)\n\.EE`).FindAllStringSubmatch(section(t, "EXAMPLES"), -1)
	if len(examples) < 3 {
		t.Errorf("%d examples", len(examples))
	}
	for _, m := range examples {
		c, err := Decode([]byte(m[1]))
		if err != nil {
			t.Errorf("%v:\n%s", err, m[1])
		} else if len(c.Unused()) > 0 {
			t.Errorf("%v:\n%s", c.Unused(), m[1])
		}
	}
}
