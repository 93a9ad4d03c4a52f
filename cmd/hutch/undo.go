package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"hutch/fs"
)

// defineUndo has the command that undoes what was done to a VM's workspace, or
// lists what can be undone.
func defineUndo(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print what is listed, or what came back, as JSON")
	return connected(func(_ context.Context, c *tree, args []string) error {
		vm, err := vmDir(args[0])
		switch {
		case err != nil:
			return err
		case len(args) == 1:
			return noVM(c, args[0], undoList(c, args[0], vm, *asJSON))
		}
		if err := tellVM(c, args[0], "undo "+fs.Quote(args[1])); err != nil {
			return err
		}
		return tellUndone(c, vm, *asJSON)
	})
}

func undoList(c *tree, name, vm string, asJSON bool) error {
	text, err := readFile(c, path.Join(vm, "undo"))
	if err != nil {
		return err
	}
	if text == "" {
		fmt.Fprintf(os.Stderr, "hutch: nothing can be undone yet; what is kept, undo in its config says: hutch config %s undo\n", fs.Quote(name))
	}
	t := newTable(asJSON, "ID", "TIME", "SNAPSHOT", "WHAT")
	for line := range strings.Lines(text) {
		part, err := fs.LineWords(line, -1)
		if err != nil || len(part) != 4 {
			return fmt.Errorf("%w: undo of vm %q says %.100q", fs.ErrIO, name, line)
		}
		info := map[string]string{"id": part[0], "time": part[1], "snapshot": part[2], "what": part[3]}
		if at, err := time.Parse(time.RFC3339Nano, part[1]); err == nil {
			part[1] = at.Local().Format(moment)
		}
		if err := t.row(info, part...); err != nil {
			return err
		}
	}
	return t.flush()
}

// tellUndone prints what the last undo did, as JSON as the log of snapshots has it.
func tellUndone(c *tree, vm string, asJSON bool) error {
	text, err := readFile(c, path.Join(vm, "log/snapshots"))
	if err != nil {
		return err
	}
	var last struct{ Event, Name, Text string }
	var whole string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"undone"`) {
			json.Unmarshal([]byte(line), &last)
			whole = line
		}
	}
	switch {
	case last.Event != "undone":
	case asJSON:
		fmt.Print(whole)
	default:
		fmt.Printf("%s: %s\n", last.Name, last.Text)
	}
	return nil
}
