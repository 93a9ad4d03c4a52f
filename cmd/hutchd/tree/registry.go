package tree

import (
	"context"
	"fmt"
	"strings"

	"hutch/fs"
	"hutch/profiles/registry"
)

func registryVerbs() []verb {
	return []verb{
		{Name: "source", Args: "builtin|file|url|api [WHERE]", Min: 1, Max: 2, Do: addSource, Doc: "list the servers of a file, a URL or a registry too; builtin: none but the built-in ones"},
		{Name: "forget", Args: "WHERE", Min: 1, Max: 1, Do: forgetSource, Doc: "list the servers of that path or URL no more"},
		{Name: "refresh", Max: 0, Do: refreshSources, Doc: "read every source anew; returns when that is done"},
	}
}

func addSource(c call, args []string) error {
	o := registry.Origin{Kind: args[0]}
	if len(args) > 1 {
		o.Where = args[1]
	}
	return c.At.s.Registry.Add(c.Ctx, o)
}

func forgetSource(c call, args []string) error { return c.At.s.Registry.Forget(args[0]) }

func refreshSources(c call, _ []string) error { return c.At.s.Registry.Refresh(c.Ctx) }

func registrySources(c call) (string, error) { return c.At.s.Registry.Sources(), nil }

func registryStatus(c call) (string, error) { return c.At.s.Registry.Status(), nil }

// openSearch finds entries by the words that are written.
func openSearch(c call, flags int) (fs.Handle, error) {
	return c.At.s.openRPC(flags, func(_ context.Context, words string) (string, error) {
		var b strings.Builder
		for _, e := range c.At.s.Registry.Search(words) {
			line, err := fs.MarshalLine(e)
			if err != nil {
				return "", err
			}
			b.Write(append(line, '\n'))
		}
		return b.String(), nil
	})
}

func entryNames(c call) ([]string, error) {
	var names []string
	for _, e := range c.At.s.Registry.List() {
		names = append(names, fs.FileName(e.Name))
	}
	return names, nil
}

func enterEntry(c call, file string) (at, error) {
	if _, err := c.At.s.Registry.Lookup(registry.NameOf(file)); err != nil {
		return at{}, err
	}
	return at{s: c.At.s, name: file}, nil
}

func entryInfo(c call) (string, error) {
	e, err := c.At.s.Registry.Lookup(registry.NameOf(c.At.name))
	if err != nil {
		return "", err
	}
	line, err := fs.MarshalLine(e)
	return fmt.Sprintf("%s\n", line), err
}
