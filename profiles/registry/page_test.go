package registry

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hutch/profiles/runconfig"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("registry.5")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The examples of the page make entries.
func TestPageExamples(t *testing.T) {
	_, text, _ := strings.Cut(page(t), "\n.SH EXAMPLES\n")
	examples := regexp.MustCompile(`(?s)\n\.EX\n(.*?)\n\.EE\n`).FindAllStringSubmatch(text, -1)
	if len(examples) < 3 {
		t.Errorf("%d examples", len(examples))
	}
	for _, m := range examples {
		if strings.HasPrefix(m[1], "$ ") {
			continue // a shell's
		}
		if sh := read(t, m[1], true); len(sh.Entries) != 1 {
			t.Errorf("refused %q:\n%s", sh.Refused.Reasons, m[1])
		}
	}
}

// Every member of an entry has its place in the page, and every kind of source and of
// package.
func TestPageTellsAll(t *testing.T) {
	_, text, _ := strings.Cut(page(t), "\n.SS Entries\n")
	text, _, _ = strings.Cut(text, "\n.SS ")
	entry := regexp.MustCompile(`(?m)^\.TP\n\.BR? (.*)$`)
	var told, members []string
	for _, m := range entry.FindAllStringSubmatch(text, -1) {
		told = append(told, strings.FieldsFunc(m[1], func(c rune) bool { return strings.ContainsRune(`", `, c) })...)
	}
	for f := range reflect.TypeFor[Entry]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members = append(members, name)
	}
	slices.Sort(told)
	slices.Sort(members)
	if !slices.Equal(told, members) {
		t.Errorf("the page tells of %q; an entry has %q", told, members)
	}
	for _, k := range packageKinds {
		if k.kind != runconfig.Image && !strings.Contains(page(t), "\n.BI "+string(k.kind)+"://") {
			t.Errorf("the page has no %s", k.kind)
		}
	}
	for _, k := range Kinds {
		if !strings.Contains(page(t), "\n.TP\n.BI "+k+" ") && !strings.Contains(page(t), "\n.TP\n.B "+k+"\n") {
			t.Errorf("the page has no source %s", k)
		}
	}
}
