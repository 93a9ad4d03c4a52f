package composite

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestPage ties the manual page to the fields, the functions, what templates read
// and the bounds; and tries its examples.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile("composite.5")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(raw), `\-`, "-")
	words := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\.(?:B|BR) (.*)$`).FindAllStringSubmatch(page, -1) {
		for _, word := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ' ' || r == ',' || r == '\\' }) {
			words[word] = true
		}
	}
	var want []string
	for _, of := range []any{Definition{}, Step{}, OnError{}, Response{}, Output{}, Property{}, Annotations{}} {
		for i := range reflect.TypeOf(of).NumField() {
			want = append(want, reflect.TypeOf(of).Field(i).Tag.Get("yaml"))
		}
	}
	for _, f := range functions {
		want = append(want, f.name)
	}
	for _, k := range kinds {
		want = append(want, k.name)
	}
	want = append(want, types...)
	want = append(want, ".params", ".steps.ID", ".workflow", ".forEach")
	for _, word := range want {
		if !words[word] {
			t.Errorf("the page has no %s", word)
		}
	}
	checkBounds(t, page)
	examples := strings.Split(page, "\n.EX\n")[1:]
	for _, example := range examples {
		text, _, _ := strings.Cut(example, "\n.EE")
		compile(t, text)
	}
	if len(examples) == 0 {
		t.Error("the page has no example")
	}
}

// checkBounds compares the page's table with the constants.
func checkBounds(t *testing.T, page string) {
	source, err := os.ReadFile("bound.go")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int{
		"MaxDefinition": MaxDefinition, "MaxSteps": MaxSteps, "MaxTemplate": MaxTemplate, "MaxWidth": MaxWidth, "MaxDepth": MaxDepth,
		"MaxProperties": MaxProperties, "MaxName": MaxName, "MaxReference": MaxReference, "MaxText": MaxText, "MaxIterations": MaxIterations,
		"MaxParallel": MaxParallel, "MaxAtOnce": MaxAtOnce, "MaxRetries": MaxRetries, "MaxBackoff": MaxBackoff, "MaxArguments": MaxArguments,
		"MaxResult": MaxResult, "MaxResults": MaxResults, "MaxMade": MaxMade, "MaxDigits": MaxDigits, "MaxTemplateWork": MaxTemplateWork, "MaxWork": MaxWork,
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(Max\w+) +=`).FindAllStringSubmatch(string(source), -1) {
		if m[1] == "MaxTimeout" { // told where it counts
			continue
		}
		if !strings.Contains(page, fmt.Sprintf("\n%s\t%d\t", m[1], have[m[1]])) {
			t.Errorf("the page does not say that %s is %d", m[1], have[m[1]])
		}
	}
}
