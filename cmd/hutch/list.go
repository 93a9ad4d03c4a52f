package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"text/tabwriter"

	"hutch/fs/ninep/client"
)

// ps prints a line for each VM, and one for each command in it.
func ps(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return misuse("hutch ps")
	}
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := readFile(c, "status")
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "VM\tSTATE\tDRIVER\tIMAGE\tEXEC\tCOMMAND")
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		fmt.Fprintln(w, strings.Join(words[:4], "\t")+"\t\t")
		printExecs(w, c, words[0])
	}
	return w.Flush()
}

func printExecs(w *tabwriter.Writer, c *client.Conn, vm string) {
	dir := path.Join("vm", vm, "exec")
	entries, err := c.ReadDir(dir)
	if err != nil {
		return // the VM went meanwhile
	}
	for _, e := range entries {
		if !e.Mode.IsDir() {
			continue
		}
		cmd, _ := readFile(c, path.Join(dir, e.Name, "cmd"))
		state, _ := readFile(c, path.Join(dir, e.Name, "status"))
		state, _, _ = strings.Cut(state, "\n")
		fmt.Fprintf(w, "%s\t%s\t\t\t%s\t%s\n", vm, state, e.Name, strings.TrimSpace(cmd))
	}
}

// calls prints a VM's MCP calls from the first on, until it is interrupted.
func calls(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return misuse("hutch calls VM")
	}
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return copyOut(ctx, c, os.Stdout, path.Join("vm", args[0], "mcp", "calls"))
}
