package main

import (
	"maps"
	"slices"

	"hutch/fs"
)

// A verb is a row of the table of what a command does by the first of its arguments.
type verb[F any] struct {
	min, max int // how many arguments there may be behind it; max < 0: any number
	do       F
}

// verbOf returns what args have the command called name do: the verb that they begin
// with, if as many follow as it takes.
func verbOf[F any](name string, verbs map[string]verb[F], args []string) (F, error) {
	word := args[0]
	v, ok := verbs[word]
	switch n := len(args) - 1; {
	case !ok:
		best := otherVerbs[word]
		if _, ok := verbs[best]; !ok {
			best = ""
		}
		return v.do, misused(name, "no verb "+fs.QuoteLine(word)+meant(word, slices.Sorted(maps.Keys(verbs)), best))
	case n < v.min:
		return v.do, misused(name, word+" of what is not said")
	case v.max >= 0 && n > v.max:
		return v.do, misused(name, word+" has no use for "+fs.QuoteLine(args[v.max+1]))
	}
	return v.do, nil
}

// otherVerbs are names that other programs have for what ours do.
var otherVerbs = map[string]string{
	"list": "ls", "ps": "ls", "status": "ls", "remove": "rm", "delete": "rm", "kill": "stop", "add": "run", "create": "run", "inspect": "export", "show": "info",
}
