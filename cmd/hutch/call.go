package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
)

// defineCall has the command that calls a tool of a VM, a server or a group.
func defineCall(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print the whole result, or each tool, in JSON on a line")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		if len(args) == 1 {
			return listTools(c, args[0], *asJSON)
		}
		line, err := toolArguments(args[2:])
		if err != nil {
			return err
		}
		dir, err := endpoint(c, args[0])
		if err != nil {
			return err
		}
		result, err := callTool(ctx, c, path.Join(dir, "mcp/tools"), args[1], line)
		if err != nil {
			return err
		}
		return printResult(os.Stdout, result, *asJSON)
	})
}

// A toolLine is what is told of a tool.
type toolLine struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
}

// listTools prints the tools that something has, with the first line that each says of
// itself.
func listTools(c *tree, of string, asJSON bool) error {
	dir, err := endpoint(c, of)
	if err != nil {
		return err
	}
	dir = path.Join(dir, "mcp/tools")
	names, err := things(c, dir)
	if err != nil {
		return err
	}
	if err := tellStatus(c, path.Dir(path.Dir(dir)), notedTexts); err != nil { // which lists are missing
		return err
	}
	t := newTable(asJSON, "TOOL", "DESCRIPTION")
	for _, name := range names {
		says, err := readFile(c, path.Join(dir, fs.FileName(name), "description"))
		schema := "null"
		if err == nil && asJSON {
			schema, err = readFile(c, path.Join(dir, fs.FileName(name), "schema"))
		}
		if isMissing(err) {
			continue // it went meanwhile
		}
		if err != nil {
			return err
		}
		if says = strings.TrimSpace(says); !json.Valid([]byte(schema)) {
			schema = "null" // it has none
		}
		first, _, _ := strings.Cut(says, "\n")
		if err := t.row(toolLine{name, says, json.RawMessage(schema)}, fs.QuoteLine(name), cut(fs.PlainLine(first), 100)); err != nil {
			return err
		}
	}
	return t.flush()
}

// maxArguments is how many bytes the arguments of a call have at most.
const maxArguments = 1 << 20

// toolArguments returns the line of JSON that args say: nothing, JSON, or - for what
// comes in.
func toolArguments(args []string) (string, error) {
	if len(args) == 0 {
		return "{}", nil
	}
	text := []byte(args[0])
	if args[0] == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(os.Stdin, maxArguments+1)); err != nil {
			return "", err
		}
	}
	var line bytes.Buffer
	switch {
	case len(text) > maxArguments:
		return "", fmt.Errorf("%w: the arguments have more than %d MiB", fs.ErrTooLarge, maxArguments>>20)
	case json.Compact(&line, text) != nil || line.Len() == 0 || line.Bytes()[0] != '{':
		return "", misused("call", `the arguments are no JSON object, as {"a":1}`)
	}
	return line.String(), nil
}

// callTool calls a tool that has a folder in dir, and returns the result. The call is
// cancelled with ctx.
func callTool(ctx context.Context, c *tree, dir, tool, line string) ([]byte, error) {
	f, err := c.open(path.Join(dir, fs.FileName(tool), "call"), os.O_RDWR)
	if isMissing(err) {
		return nil, noTool(c, dir, tool, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.closeWith(ctx)()
	if err := tell(f, line); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// noTool adds to why there is no such tool which was meant; not where the server that it
// would be of is told as failed.
func noTool(c *tree, dir, tool string, err error) error {
	if strings.Contains(fs.Text(err), "see mcp/servers") {
		return err
	}
	names, _ := things(c, dir)
	best := ""
	for _, name := range names {
		if strings.HasSuffix(name, "_"+tool) { // said without its server
			best = name
		}
	}
	return fmt.Errorf("%w%s; hutch 9p ls %s lists the tools", err, meant(tool, names, best), dir)
}

// printResult prints the texts of a tool's result, or all of it where it has other
// content. The error says that the tool has failed.
func printResult(w *os.File, result []byte, asJSON bool) error {
	var r struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("%w: the result: %w", fs.ErrIO, err)
	}
	text := ""
	for _, content := range r.Content {
		asJSON = asJSON || content.Type != "text"
		text += strings.TrimSuffix(content.Text, "\n") + "\n"
	}
	if asJSON || text == "" {
		text = string(fs.EscapeLine(result))
	} else if term.IsTerminal(int(w.Fd())) {
		text = plainLines(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if r.IsError {
		return exit(1)
	}
	return nil
}

// plainLines returns a text of a server as lines that a terminal shows as they are.
func plainLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(fs.PlainLine(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// tools are the tools of a VM, a server or a group.
func tools(ctx context.Context, of string) []string {
	dir, err := placeOf(of)
	if err != nil {
		return nil
	}
	return names(ctx, path.Join(dir, "mcp/tools"))
}
