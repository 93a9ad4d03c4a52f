package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
	"hutch/mcpd/query/sqltext"
)

// defineSQL has the command that asks a ledger.
func defineSQL(flags *flag.FlagSet) action {
	mode := "json"
	if term.IsTerminal(1) {
		mode = "table"
	}
	flags.StringVar(&mode, "mode", mode, "print rows as table, csv or json: `how`")
	return func(ctx context.Context, args []string) error {
		if !slices.Contains(modes, mode) {
			return misused("sql", fmt.Sprintf("mode %q: it is one of %s", mode, strings.Join(modes, ", ")))
		}
		return connected(func(ctx context.Context, c *tree, args []string) error {
			return sql(ctx, c, mode, args)
		})(ctx, args)
	}
}

// sql runs a statement, or those of the input. Of one argument that is a
// statement which has a blank in it: no name of a VM has one.
func sql(ctx context.Context, c *tree, mode string, args []string) error {
	of, text := "", ""
	switch {
	case len(args) == 2:
		of, text = args[0], args[1]
	case len(args) == 1 && strings.ContainsAny(args[0], " \t\n"):
		text = args[0]
	case len(args) == 1:
		of = args[0]
	}
	dir, err := ".", error(nil)
	if of != "" {
		dir, err = placeIn(c, of)
	}
	if err != nil {
		return err
	}
	f, err := c.open(dir+"/db/query", os.O_RDWR)
	if err != nil {
		return noPlace(c, dir, err)
	}
	defer f.closeWith(ctx)()
	a := &asker{c: c, f: f, schema: dir + "/db/schema", mode: mode}
	if text != "" {
		err = a.run(text)
	} else {
		err = a.prompt(ctx)
	}
	return cmp.Or(ctx.Err(), err)
}

// An asker asks a ledger.
type asker struct {
	c      *tree
	f      *file // its db/query
	schema string
	mode   string
}

// run runs a statement and prints its rows.
func (a *asker) run(text string) error {
	if _, err := a.f.WriteAt([]byte(text+"\n"), 0); err != nil {
		return err
	}
	return printRows(os.Stdout, a.mode, io.NewSectionReader(a.f, 0, 1<<62))
}

// prompt runs the statements of the input, each up to a semicolon at the end of a
// line. On a terminal an error does not end it.
func (a *asker) prompt(ctx context.Context) error {
	next, terminal := lines(os.Stdin)
	var text sqltext.Text
	begun := false
	for {
		line, err := next(begun)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil && terminal {
			return nil
		}
		trimmed := strings.TrimSpace(line)
		word := !begun && strings.HasPrefix(trimmed, ".")
		begun = begun || trimmed != ""
		if ended := begun && text.Add(line) || word || err != nil; ended && begun {
			begun = false
			if rerr := a.do(text.Take()); errors.Is(rerr, io.EOF) {
				return nil
			} else if rerr != nil && (!terminal || ctx.Err() != nil || errors.Is(rerr, errLost)) {
				return rerr
			} else if rerr != nil {
				fmt.Fprintf(os.Stderr, "hutch: %s\n", fs.Text(rerr))
			}
		}
		if err != nil {
			return nil
		}
	}
}

// lines returns what reads lines of the input, which has a prompt if it is a
// terminal.
func lines(in *os.File) (next func(more bool) (string, error), terminal bool) {
	if !term.IsTerminal(int(in.Fd())) {
		r := bufio.NewReader(in)
		return func(bool) (string, error) {
			line, err := r.ReadString('\n')
			return strings.TrimRight(line, "\r\n"), err
		}, false
	}
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, os.Stdout}, "")
	return func(more bool) (string, error) {
		screen.SetPrompt("sql> ")
		if more {
			screen.SetPrompt("...> ")
		}
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return "", err
		}
		defer term.Restore(int(in.Fd()), old)
		if width, height, err := term.GetSize(1); err == nil && width > 0 {
			screen.SetSize(width, height)
		}
		return screen.ReadLine()
	}, true
}

// do does what was typed: a statement, or a word of the prompt's own. io.EOF ends
// the prompt.
func (a *asker) do(text string) error {
	words := strings.Fields(text)
	switch words[0] {
	case ";":
		return nil
	case ".quit", ".exit", ".q":
		return io.EOF
	case ".schema", ".tables":
		return a.tables(words)
	case ".mode":
		if len(words) == 2 && slices.Contains(modes, words[1]) {
			a.mode = words[1]
			return nil
		}
		return fmt.Errorf("%w: .mode is one of %s", fs.ErrInvalid, strings.Join(modes, ", "))
	}
	if text[0] == '.' {
		return fmt.Errorf("%w: %s: there are .mode MODE, .schema [TABLE], .tables and .quit; a statement ends with a semicolon", fs.ErrInvalid, words[0])
	}
	return a.run(text)
}

// tables prints the tables, one or all, or their names.
func (a *asker) tables(words []string) error {
	text, err := readFile(a.c, a.schema)
	if err != nil {
		return err
	}
	found := false
	for _, table := range strings.SplitAfter(text, ");\n") {
		name, _, is := strings.Cut(strings.TrimPrefix(table, "CREATE TABLE "), " ")
		switch {
		case !is || len(words) > 1 && !strings.EqualFold(words[1], name):
			continue
		case words[0] == ".tables":
			fmt.Println(name)
		default:
			fmt.Print(table)
		}
		found = true
	}
	if !found && len(words) > 1 {
		return fmt.Errorf("%w: no table %q: .tables lists them", fs.ErrNotExist, words[1])
	}
	return nil
}
