package profiles

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every key has its entry in the page and every entry is a key.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("profile.5")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n.SH KEYS\n")
	text, _, _ = strings.Cut(text, "\n.SH EXAMPLES\n")
	var entries []string
	entry := regexp.MustCompile(`(?m)^\.T[PQ]\n\.B (\S+)$`)
	says := entry.Split(text, -1)[1:]
	for i, m := range entry.FindAllStringSubmatch(text, -1) {
		entries = append(entries, m[1])
		if k := FindKey(m[1]); k != nil && k.In&InConfig != 0 {
			for _, v := range []string{k.Min, k.Max, k.Default} {
				if v != "1s" && !strings.Contains(says[i], v) { // which is said in words
					t.Errorf("profile.5 does not tell %s of %s", v, k.Name)
				}
			}
		}
	}
	var keys []string
	for _, k := range Keys {
		if k.In&(InProfile|InCorp) != 0 {
			keys = append(keys, k.Name)
		}
	}
	for _, k := range keys {
		if !slices.Contains(entries, k) {
			t.Errorf("%s is not in profile.5", k)
		}
	}
	for i, e := range entries {
		if !slices.Contains(keys, e) {
			t.Errorf("profile.5 tells of %s, which is no key", e)
		}
		if slices.Contains(entries[:i], e) {
			t.Errorf("profile.5 tells of %s twice", e)
		}
	}
}

// The examples of the pages parse.
func TestPageExamples(t *testing.T) {
	for _, page := range []string{"profile.5", "policy.5"} {
		t.Run(page, func(t *testing.T) { testExamples(t, page) })
	}
}

func testExamples(t *testing.T, name string) {
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n.SH EXAMPLES\n")
	examples := regexp.MustCompile(`(?s)\n\.EX\n(.*?)\n\.EE\n`).FindAllStringSubmatch(text, -1)
	if len(examples) < 3 {
		t.Errorf("%d examples", len(examples))
	}
	for _, m := range examples {
		if strings.HasPrefix(m[1], "$ ") {
			continue // a shell's
		}
		if _, err := Parse("example", []byte(strings.ReplaceAll(m[1], `\e`, `\`))); err != nil {
			t.Errorf("%v:\n%s", err, m[1])
		}
	}
}
