package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hutch/fs"
	"hutch/profiles/registry"
)

// registryVerbs is the table of what hutch registry does.
var registryVerbs = map[string]verb[func(c *tree, asJSON bool, args []string) error]{
	"ls":      {0, 0, searchRegistry},
	"search":  {1, -1, searchRegistry},
	"info":    {1, 1, entryInfo},
	"status":  {0, 0, registryStatus},
	"source":  {1, 2, tellRegistry("source")},
	"forget":  {1, 1, tellRegistry("forget")},
	"refresh": {0, 0, tellRegistry("refresh")},
}

// defineRegistry has the command that lists MCP servers which can be run by name.
func defineRegistry(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return func(ctx context.Context, args []string) error {
		do, err := verbOf("registry", registryVerbs, args)
		if err != nil {
			return err
		}
		return connected(func(_ context.Context, c *tree, args []string) error { return do(c, *asJSON, args) })(ctx, args[1:])
	}
}

// searchRegistry lists the entries that have all words.
func searchRegistry(c *tree, asJSON bool, words []string) error {
	f, err := c.open("registry/search", os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tell(f, strings.Join(words, " ")); err != nil {
		return err
	}
	if asJSON {
		_, err := io.Copy(os.Stdout, f)
		return err
	}
	return printEntries(bufio.NewReaderSize(f, 128<<10))
}

// printEntries prints a row for each entry of r.
func printEntries(r io.Reader) error {
	t := newTable(false, "NAME", "VERSION", "TRANSPORT", "RUN", "DESCRIPTION")
	for in := json.NewDecoder(r); ; {
		var e registry.Entry
		err := in.Decode(&e)
		if err == io.EOF {
			return t.flush()
		}
		if err == nil {
			err = t.row(nil, e.Name, e.Version, e.Transport, e.Run, e.Description)
		}
		if err != nil {
			return err
		}
	}
}

// entryInfo prints what a run of a server needs.
func entryInfo(c *tree, asJSON bool, args []string) error {
	name := args[0]
	text, err := readFile(c, path.Join("registry/servers", fs.FileName(name), "info"))
	if isMissing(err) {
		return fmt.Errorf("%w; hutch registry search finds them", err) // which names what is meant
	}
	if err != nil {
		return err
	}
	if asJSON {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	var e registry.Entry
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(describeEntry(&e))
	return err
}

// describeEntry returns what an entry says, a line for each thing.
func describeEntry(e *registry.Entry) string {
	var b strings.Builder
	say := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", key, fs.PlainLine(visible.Replace(value)))
		}
	}
	for _, l := range [][2]string{
		{"name", e.Name}, {"title", e.Title}, {"description", e.Description}, {"version", e.Version}, {"status", e.Status}, {"tier", e.Tier},
		{"transport", e.Transport}, {"run", e.Run}, {"url", e.URL},
	} {
		say(l[0], l[1])
	}
	for _, a := range e.Args {
		say("argument", describeInput(a.Input))
	}
	for _, of := range []struct {
		key  string
		list []registry.Input
	}{{"env", e.Env}, {"header", e.Headers}, {"variable", e.Variables}} {
		for _, in := range of.list {
			say(of.key, describeInput(in))
			for _, v := range in.Variables {
				say(of.key, describeInput(v))
			}
		}
	}
	say("permissions", string(e.Permissions))
	say("tools", strings.Join(e.Tools, " "))
	say("tags", strings.Join(e.Tags, " "))
	say("repository", e.Repository)
	if p := e.Provenance; p != nil {
		say("provenance", strings.Join(strings.Fields(p.RepositoryURI+" "+p.RepositoryRef+" "+p.SignerIdentity+" "+p.CertIssuer), " "))
	}
	say("signature", e.Signature)
	for _, note := range e.Notes {
		say("note", note)
	}
	say("source", e.Source)
	return b.String()
}

// describeInput returns what an input takes: NAME=VALUE if the registry sets it.
func describeInput(in registry.Input) string {
	words := []string{in.Name}
	switch {
	case in.Value != "" && in.Name == "":
		words[0] = in.Value
	case in.Value != "":
		words[0] += "=" + in.Value
	case in.Required && in.Default == "":
		words = append(words, "(required)")
	case in.Default != "":
		words = append(words, "(or else "+in.Default+")")
	}
	if in.Secret {
		words = append(words, "(secret)")
	}
	if len(in.Choices) > 0 {
		words = append(words, "(one of "+strings.Join(in.Choices, ", ")+")")
	}
	if in.Description != "" {
		words = append(words, in.Description)
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// registryStatus prints what the sources have.
func registryStatus(c *tree, _ bool, _ []string) error {
	text, err := readFile(c, "registry/status")
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	return err
}

// tellRegistry writes a message to the registry's ctl. A path is taken from here.
func tellRegistry(verb string) func(*tree, bool, []string) error {
	return func(c *tree, _ bool, args []string) error {
		if verb == "source" && args[0] == "file" && len(args) == 2 {
			path, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			args[1] = path
		}
		return writeFile(c, "registry/ctl", fs.QuoteAll(append([]string{verb}, args...))+"\n")
	}
}
