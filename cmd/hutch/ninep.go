package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// ninepVerbs is the table of what hutch 9p can do to a file.
var ninepVerbs = map[string]func(ctx context.Context, c *client.Conn, name string) error{
	"ls": func(_ context.Context, c *client.Conn, name string) error {
		return list(c, name, func(e fs.Entry) error {
			if e.Mode.IsDir() {
				e.Name += "/"
			}
			_, err := fmt.Println(shown(e.Name, term.IsTerminal(1)))
			return err
		})
	},
	"read":  func(ctx context.Context, c *client.Conn, name string) error { return copyOut(ctx, c, os.Stdout, name) },
	"write": write,
	"rdwr":  rdwr,
	"mkdir": func(_ context.Context, c *client.Conn, name string) error {
		return orExplain(c, name, c.Mkdir(name, 0o755))
	},
	"rm": func(_ context.Context, c *client.Conn, name string) error { return orExplain(c, name, c.Remove(name)) },
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
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		name := "/"
		if len(args) == 2 {
			name = path.Clean("/" + args[1])
		}
		if *asJSON {
			return list(c, name, func(e fs.Entry) error {
				return printJSON(os.Stdout, map[string]string{"name": e.Name, "type": kindOf(e.Mode)})
			})
		}
		return verb(ctx, c, name)
	}
}

func orExplain(c *client.Conn, name string, err error) error {
	if err != nil {
		return explain(c, name, err)
	}
	return nil
}

// list prints each entry of a directory, or the one file.
func list(c *client.Conn, name string, print func(fs.Entry) error) error {
	st, err := c.Stat(name)
	if err != nil {
		return explain(c, name, err)
	}
	if !st.Mode.IsDir() {
		return print(fs.Entry{Name: strings.TrimPrefix(name, "/"), Mode: st.Mode})
	}
	entries, err := c.ReadDir(name)
	if err != nil {
		return explain(c, name, err)
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

// write copies standard input to a file: whole lines at once, so that a
// message is never cut.
func write(_ context.Context, c *client.Conn, name string) error {
	f, err := c.Open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		f, err = c.Create(name, os.O_WRONLY, 0o644)
	}
	if err != nil {
		return explain(c, name, err)
	}
	_, err = io.Copy(f, bufio.NewReaderSize(os.Stdin, 64<<10))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return orExplain(c, name, err)
}

// rdwr keeps one file open: it prints what a read gives, writes a line of
// standard input, and does so again until the input ends. An error of one
// line is told and does not end the session, but is its end.
func rdwr(_ context.Context, c *client.Conn, name string) error {
	f, err := c.Open(name, os.O_RDWR)
	if err != nil {
		return explain(c, name, err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(os.Stdin, 64<<10)
	result := error(nil)
	for {
		if err := readAt0(f, os.Stdout); err != nil {
			return orExplain(c, name, err)
		}
		line, err := lines.ReadString('\n')
		if line == "" && err != nil {
			if err != io.EOF {
				return err
			}
			return result
		}
		if _, err := f.WriteAt([]byte(strings.TrimSuffix(line, "\n")+"\n"), 0); err != nil {
			fmt.Fprintf(os.Stderr, "hutch: %s\n", fs.Text(explain(c, name, err)))
			result = exit(1)
		}
	}
}

// readAt0 copies what f has from offset 0 on to w.
func readAt0(f *client.File, w io.Writer) error {
	p := make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := f.ReadAt(p, off)
		if n == 0 || err != nil {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
}
