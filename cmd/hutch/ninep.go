package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"hutch/fs/ninep/client"
	"hutch/fs/node"
)

// ninepVerbs is the table of what hutch 9p can do to a file.
var ninepVerbs = map[string]func(ctx context.Context, c *client.Conn, name string) error{
	"ls":    list,
	"read":  func(ctx context.Context, c *client.Conn, name string) error { return copyOut(ctx, c, os.Stdout, name) },
	"write": write,
	"rdwr":  rdwr,
	"mkdir": func(_ context.Context, c *client.Conn, name string) error {
		return orExplain(c, name, c.Mkdir(name, 0o755))
	},
	"rm": func(_ context.Context, c *client.Conn, name string) error { return orExplain(c, name, c.Remove(name)) },
}

// ninepFile is the subcommand 9p.
func ninepFile(ctx context.Context, args []string) error {
	if len(args) == 0 || len(args) > 2 || ninepVerbs[args[0]] == nil {
		return misuse("hutch 9p ls|read|write|rdwr|mkdir|rm PATH")
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
	return ninepVerbs[args[0]](ctx, c, name)
}

func orExplain(c *client.Conn, name string, err error) error {
	if err != nil {
		return explain(c, name, err)
	}
	return nil
}

// list prints a directory, or the one file.
func list(_ context.Context, c *client.Conn, name string) error {
	st, err := c.Stat(name)
	if err != nil {
		return err
	}
	if !st.Mode.IsDir() {
		fmt.Println(strings.TrimPrefix(name, "/"))
		return nil
	}
	entries, err := c.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Mode.IsDir() {
			e.Name += "/"
		}
		fmt.Println(e.Name)
	}
	return nil
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
// standard input, and does so again until the input ends.
func rdwr(_ context.Context, c *client.Conn, name string) error {
	f, err := c.Open(name, os.O_RDWR)
	if err != nil {
		return explain(c, name, err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(os.Stdin, 64<<10)
	for {
		if err := readAt0(f, os.Stdout); err != nil {
			return err
		}
		line, err := lines.ReadString('\n')
		if line == "" && err == io.EOF {
			return nil
		}
		if _, err := f.WriteAt([]byte(line), 0); err != nil {
			fmt.Fprintf(os.Stderr, "hutch: %s\n", node.Text(explain(c, name, err)))
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
