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

// A value is a part of the arguments of a call.
type value struct {
	name  string // of the member that it is; "" in a list
	kind  byte   // of its JSON: one of { [ " and, for all others, 0
	text  string // of a string; the word itself of the others
	parts []value
}

// parseArgs reads the arguments of a call, none if there are none. It refuses what
// a server could take for something else than the checks do, as members whose names
// are the same to it: {"args": ["status"], "Args": ["push"]}.
func parseArgs(text []byte) (value, error) {
	if len(text) == 0 {
		return value{kind: '{'}, nil
	}
	if err := checkForm(text); err != nil {
		return value{}, err
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
// the last word: file_path, newPath, SOURCE; or the last two: fileName.
func isPathName(name string) bool {
	last, two := lastWords(name)
	switch last {
	case "file", "files", "dir", "dirs", "folder", "folders", "cwd", "root", "roots", "from", "to", "src", "dst", "dest",
		"source", "sources", "destination", "destinations", "target", "targets",
		"outfile", "infile", "logfile":
		return true
	}
	switch two {
	case "filename", "filenames", "pathname", "dirname", "foldername", "workdir":
		return true
	}
	return hasSuffix(last, "path", "paths", "filename", "filenames", "directory", "directories", "dirname", "workdir")
}

// mayBePathName tells whether an argument of that name is a path if it looks like one.
func mayBePathName(name string) bool {
	switch last, _ := lastWords(name); last {
	case "input", "inputs", "output", "outputs", "location", "locations", "attachment", "attachments", "uri", "uris", "image", "images", "archive":
		return true
	}
	return false
}

// isURLName tells whether an argument of that name says a host.
func isURLName(name string) bool {
	last, two := lastWords(name)
	switch last {
	case "href", "hrefs", "link", "links", "endpoint", "origin", "site", "website":
		return true
	}
	switch two {
	case "domainname", "hostname", "servername":
		return true
	}
	return hasSuffix(last, "url", "urls", "uri", "uris", "domain", "domains", "host", "hosts", "hostname", "hostnames")
}

// mayBeHostName tells whether an argument of that name says a host if it is one word.
func mayBeHostName(name string) bool {
	switch last, _ := lastWords(name); last {
	case "server", "servers", "proxy", "proxies", "address", "addresses", "addr", "ip", "remote":
		return true
	}
	return false
}

// isCommandName tells whether an argument of that name is a command.
func isCommandName(name string) bool {
	last, two := lastWords(name)
	switch last {
	case "command", "commands", "cmd", "cmds", "commandline", "cmdline", "program", "executable", "exe", "exec", "binary", "bin", "script", "shell":
		return true
	}
	return two == "commandline" || two == "cmdline"
}

// isWordsName tells whether an argument of that name has the words of a command.
func isWordsName(name string) bool {
	switch last, _ := lastWords(name); last {
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

// lastWords returns the last word of a name that is written as_words, as-words,
// as.words or asWords, and its last two as one, in lower case.
func lastWords(name string) (last, two string) {
	name = strings.TrimFunc(name, func(c rune) bool { return !unicode.IsLetter(c) })
	at := wordStart(name)
	before := strings.TrimRight(name[:at], "_-. ")
	last = strings.ToLower(name[at:])
	return last, strings.ToLower(before[wordStart(before):]) + last
}

// wordStart returns where the last word of a name begins.
func wordStart(name string) int {
	start := strings.LastIndexAny(name, "_-. ") + 1
	for i := len(name) - 1; i > start; i-- {
		if isUpper(name[i]) && !isUpper(name[i-1]) {
			return i
		}
	}
	return start
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// isPlural tells whether a name is that of several.
func isPlural(name string) bool {
	last, _ := lastWords(name)
	return strings.HasSuffix(last, "s")
}
