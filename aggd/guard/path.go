package guard

import (
	"fmt"
	"net/url"
	"strings"
)

// Path returns the path of a request as rules see it: without its escapes, and
// with one slash where there are more. A path with . or .. in it is an error: to
// one server it is the file that it names, to another the one that it leads to.
func Path(escaped string) (string, error) {
	path, err := url.PathUnescape(escaped)
	if err != nil || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%.64q is no path", escaped)
	}
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		name, _, _ := strings.Cut(segment, ";") // parameters, to some
		if name == "." || name == ".." {
			return "", fmt.Errorf("the path %.64q has %s in it", escaped, name)
		}
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path, nil
}
