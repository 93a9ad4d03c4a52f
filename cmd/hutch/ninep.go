package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
)

// ninepVerbs is the table of what hutch 9p can do to a file.
var ninepVerbs = map[string]func(c *tree, name string) error{
	"ls":    ls,
	"read":  read,
	"write": write,
	"rdwr":  rdwr,
	"mkdir": func(c *tree, name string) error { return c.mkdir(name, 0o755) },
	"rm":    (*tree).remove,
}

// shown returns a name as a line that a terminal shows as it is: a guest gives
// its files what names it likes.
func shown(name string, terminal bool) string {
	if line := fs.QuoteLine(name); terminal && strings.HasPrefix(line, `"`) {
		return line
	}
	return name
}

// defineNinep has the subcommand 9p.
func defineNinep(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "ls prints a JSON object a line")
	return func(ctx context.Context, args []string) error {
		verb := ninepVerbs[args[0]]
		if verb == nil || *asJSON && args[0] != "ls" {
			return misuse(lookup("9p").usage())
		}
		if *asJSON {
			verb = listJSON
		}
		return connected(func(_ context.Context, c *tree, args []string) error {
			return verb(c, path.Join("/", path.Join(args[1:]...)))
		})(ctx, args)
	}
}

func ls(c *tree, name string) error {
	return list(c, name, func(e fs.Entry) error {
		if e.Mode.IsDir() {
			e.Name += "/"
		}
		_, err := fmt.Println(shown(e.Name, term.IsTerminal(1)))
		return err
	})
}

func listJSON(c *tree, name string) error {
	return list(c, name, func(e fs.Entry) error {
		return printJSON(os.Stdout, map[string]string{"name": e.Name, "type": kindOf(e.Mode)})
	})
}

// list prints each entry of a directory, or the one file.
func list(c *tree, name string, print func(fs.Entry) error) error {
	mode, err := c.stat(name)
	if err != nil {
		return err
	}
	if !mode.IsDir() {
		return print(fs.Entry{Name: strings.TrimPrefix(name, "/"), Mode: mode})
	}
	entries, err := c.readDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := print(e); err != nil {
			return err
		}
	}
	return nil
}

// kindOf says in a word what a file of this mode is.
func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m.IsRegular():
		return "file"
	case m&os.ModeSymlink != 0:
		return "link"
	}
	return "special"
}

func read(c *tree, name string) error {
	return copyFile(context.Background(), c, os.Stdout, name, os.O_RDONLY)
}

// write copies standard input to a file: whole lines at once, so that a
// message is never cut.
func write(c *tree, name string) error {
	f, err := c.create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bufio.NewReaderSize(os.Stdin, 64<<10))
	return cmp.Or(err, f.Close())
}

// rdwr keeps one file open: it prints what a read gives, writes a line of
// standard input, and does so again until the input ends. An error of one
// line is told and does not end the session, but is its end.
func rdwr(c *tree, name string) error {
	f, err := c.open(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(os.Stdin, 64<<10)
	result := error(nil)
	for {
		if _, err := io.Copy(os.Stdout, io.NewSectionReader(f, 0, 1<<62)); err != nil {
			return err
		}
		line, err := lines.ReadString('\n')
		if line == "" && err != nil {
			if err != io.EOF {
				return err
			}
			return result
		}
		if _, err := f.WriteAt([]byte(strings.TrimSuffix(line, "\n")+"\n"), 0); err != nil {
			fmt.Fprintf(os.Stderr, "hutch: %s\n", fs.Text(err))
			result = exit(1)
		}
	}
}
