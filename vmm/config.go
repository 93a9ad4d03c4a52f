package vmm

import (
	"bytes"
	"fmt"
	"strings"

	"hutch/profiles"
)

// A Config says what machine a VM wants; profiles has the table of its keys.
type Config = profiles.Config

// defaultMark begins a line that tells what holds of a key which a config does
// not say. Such lines are made for who reads it, and not kept, so that they
// are never of another day.
const defaultMark = "# default: "

// withDefaults returns text, which says said, with what holds beside that.
func withDefaults(text string, said, holds Config) string {
	b := bytes.NewBufferString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	for key, v := range holds.All() {
		if said.Value(key) == "" {
			fmt.Fprintf(b, "%s%s %s\n", defaultMark, key, v)
		}
	}
	return b.String()
}

func withoutDefaults(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, defaultMark) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// lastLine returns the number of the line of text that counts for key.
func lastLine(text, key string) int {
	last := 0
	for i, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] == key {
			last = i + 1
		}
	}
	return last
}

// edit returns text with key's line changed to say v, or with a new last line.
// An empty v takes the line away.
func edit(text, key, v string) string {
	lines := strings.SplitAfter(text, "\n")
	done := v == ""
	var b strings.Builder
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 0 && f[0] == key {
			if !done {
				fmt.Fprintf(&b, "%s %s\n", key, v)
				done = true
			}
			continue
		}
		b.WriteString(line)
	}
	if !done {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s\n", key, v)
	}
	return b.String()
}
