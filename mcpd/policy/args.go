package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"hutch/aggd/rawjson"
)

// A value is a part of the arguments of a call. An object has all of its
// members, also those of the same name: whichever of them a server takes has
// been looked at.
type value struct {
	name  string // of the member that it is; "" in a list
	kind  byte   // of its JSON: one of { [ " and, for all others, 0
	text  string // of a string; the word itself of the others
	parts []value
}

// parseArgs reads the arguments of a call, none if there are none.
func parseArgs(text []byte) (value, error) {
	if len(text) == 0 {
		return value{kind: '{'}, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := parseValue(d, rawjson.MaxDepth)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); err != io.EOF {
		return v, errors.New("something follows them")
	}
	if v.kind != '{' {
		return v, errors.New("they are no object")
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) (v value, err error) {
	if depth == 0 {
		return v, fmt.Errorf("they are nested deeper than %d", rawjson.MaxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return v, err
	}
	switch t := token.(type) {
	case json.Delim:
		v.kind = byte(t)
		for d.More() {
			name := ""
			if v.kind == '{' {
				token, err := d.Token()
				if err != nil {
					return v, err
				}
				name, _ = token.(string)
			}
			part, err := parseValue(d, depth-1)
			if err != nil {
				return v, err
			}
			part.name = name
			v.parts = append(v.parts, part)
		}
		_, err = d.Token()
		return v, err
	case string:
		v.kind, v.text = '"', t
	default:
		v.text = fmt.Sprint(t)
	}
	return v, nil
}

// A named is a text of the arguments, and where in them it stands.
type named struct{ where, text string }

// named returns the texts of members whose names say that they are of a kind,
// at any depth. Lists are gone into, and objects where no member has such a
// name: {"from": {"at": "x"}}. Such an object may be a table of what it is
// named for: {"files": {"x/y": "…"}} names x/y.
func (v *value) named(is func(name string) bool) (found []named) {
	v.eachNamed("", false, is, func(n named) { found = append(found, n) })
	return found
}

func (v *value) eachNamed(where string, wanted bool, is func(string) bool, found func(named)) {
	if v.kind == '"' && wanted {
		found(named{where, v.text})
	}
	table := wanted && v.kind == '{'
	for i := range v.parts {
		table = table && !is(v.parts[i].name)
	}
	for i := range v.parts {
		part := &v.parts[i]
		switch {
		case v.kind == '[':
			part.eachNamed(where+"[]", wanted, is, found)
		case table && strings.ContainsAny(part.name, "./\\%"):
			found(named{where, part.name})
			part.eachNamed(where+"."+part.name, false, is, found)
		default:
			part.eachNamed(strings.TrimPrefix(where+"."+part.name, "."), table || is(part.name), is, found)
		}
	}
}

// isPathName tells whether an argument of that name is a path. What counts is
// the last word: file_path, newPath, SOURCE.
func isPathName(name string) bool {
	switch w := lastWord(name); w {
	case "file", "files", "dir", "dirs", "folder", "folders", "cwd", "root", "roots", "from", "to", "src", "dst", "dest",
		"source", "sources", "destination", "destinations", "target", "targets":
		return true
	default:
		return hasSuffix(w, "path", "paths", "filename", "filenames", "directory", "directories", "dirname", "workdir")
	}
}

// isURLName tells whether an argument of that name says a host.
func isURLName(name string) bool {
	switch w := lastWord(name); w {
	case "href", "hrefs", "link", "links", "endpoint", "origin", "site", "website":
		return true
	default:
		return hasSuffix(w, "url", "urls", "uri", "uris", "domain", "domains", "host", "hosts", "hostname", "hostnames")
	}
}

// isCommandName tells whether an argument of that name is a command.
func isCommandName(name string) bool {
	switch lastWord(name) {
	case "command", "commands", "cmd", "cmds", "commandline", "cmdline", "program", "executable", "exe", "binary", "script", "shell":
		return true
	}
	return false
}

// isWordsName tells whether an argument of that name has the words of a command.
func isWordsName(name string) bool {
	switch lastWord(name) {
	case "args", "arguments", "argv":
		return true
	}
	return false
}

func hasSuffix(word string, suffixes ...string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(word, s) {
			return true
		}
	}
	return false
}

// lastWord returns the last word of a name that is written as_words, as-words,
// as.words or asWords, in lower case.
func lastWord(name string) string {
	name = strings.TrimFunc(name, func(c rune) bool { return !unicode.IsLetter(c) })
	if i := strings.LastIndexAny(name, "_-. "); i >= 0 {
		name = name[i+1:]
	}
	for i := len(name) - 1; i > 0; i-- {
		if isUpper(name[i]) && !isUpper(name[i-1]) {
			name = name[i:]
			break
		}
	}
	return strings.ToLower(name)
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
