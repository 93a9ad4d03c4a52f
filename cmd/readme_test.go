package cmd_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadme holds the README's map, and the paths in backquotes from there on,
// against the files that there are, and the order of the map against the imports.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, ok := strings.Cut(string(text), "\n## The house\n")
	if !ok {
		t.Fatal("no map")
	}
	var paths, parts []string
	for line := range strings.Lines(house) {
		in := ""
		for _, word := range strings.Fields(line) {
			word = strings.TrimRight(word, ",;:.")
			switch folder := strings.HasSuffix(word, "/"); {
			case !strings.HasPrefix(line, "    ") || !folder:
			case in == "":
				in = word
				parts = append(parts, strings.TrimSuffix(word, "/"))
				paths = append(paths, word)
			default:
				paths = append(paths, path.Join(in, word))
			}
		}
	}
	if len(paths) < 20 {
		t.Errorf("the map has only %q", paths)
	}
	for _, quoted := range regexp.MustCompile("`[^`]*`").FindAllString(house, -1) {
		for _, word := range strings.Fields(strings.Trim(quoted, "`")) {
			if strings.Contains(word, "/") {
				paths = append(paths, word)
			}
		}
	}
	place := func(part string) int {
		top, _, _ := strings.Cut(part, "/")
		return slices.Index(parts, top)
	}
	for _, l := range layers {
		for _, may := range l.may {
			if at := place(may); at < 0 || at > place(l.part) {
				t.Errorf("%s may import %s, which stands below it in the map", l.part, may)
			}
		}
	}
	for _, p := range paths {
		if _, err := os.Stat(path.Join("..", p)); err != nil {
			t.Error(err)
		}
	}
}
