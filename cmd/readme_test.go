package cmd_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestReadme holds the README's map, and the paths in backquotes from there on,
// against the files that there are.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, ok := strings.Cut(string(text), "\n## The house\n")
	if !ok {
		t.Fatal("no map")
	}
	var paths []string
	for line := range strings.Lines(house) {
		in := ""
		for _, word := range strings.Fields(line) {
			word = strings.TrimRight(word, ",;:.")
			switch folder := strings.HasSuffix(word, "/"); {
			case !strings.HasPrefix(line, "    ") || !folder:
			case in == "":
				in = word
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
	for _, p := range paths {
		if _, err := os.Stat(path.Join("..", p)); err != nil {
			t.Error(err)
		}
	}
}
