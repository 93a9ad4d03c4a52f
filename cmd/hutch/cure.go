package main

import (
	"encoding/json"
	"regexp"
	"strings"

	"hutch/fs"
)

// toShow is what hutchd says is to be done for a server to see folders of the host.
var toShow = regexp.MustCompile(`printf '%s\\n' stop '(set volumes .*?)' start >servers/\S+?/ctl|(set volumes .*?)(, with :ro if it is only to read)`)

// asFlags returns a text in which that is said by the flags of run: the server is gone.
func asFlags(text string) string {
	m := toShow.FindStringSubmatchIndex(text)
	if m == nil {
		return text
	}
	part := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return text[m[2*i]:m[2*i+1]]
	}
	words, err := fs.Words(strings.ReplaceAll(part(1), `'\''`, "'") + part(2))
	var folders []string
	if err != nil || len(words) != 3 || json.Unmarshal([]byte(words[2]), &folders) != nil {
		return text
	}
	for i, f := range folders {
		folders[i] = "-v " + shellWord(f)
	}
	return text[:m[0]] + "add " + strings.Join(folders, " ") + part(3) + text[m[1]:]
}
