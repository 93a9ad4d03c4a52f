package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"hutch/fs"
)

// approve lets through a tool that is held back, or all of a server, or tells which
// are, and how each is not what it was when it was approved.
func approve(_ context.Context, c *tree, args []string) error {
	dir, err := endpoint(c, args[0])
	if err != nil {
		return err
	}
	ctl := path.Join(dir, "mcp/ctl")
	if len(args) > 1 {
		return writeFile(c, ctl, "approve "+fs.QuoteAll(args[1:])+"\n")
	}
	text, err := readFile(c, ctl)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		word, err := fs.LineWords(line, -1)
		switch {
		case err == nil && len(word) == 4 && word[0] == "held":
			err = tellHeld(c, os.Stdout, args[0], dir, word[1:])
		case err == nil && len(word) == 2 && word[0] == "more":
			_, err = fmt.Printf("and %s more\n", word[1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tellHeld tells of a tool of what is held back: its name, its digest and why.
func tellHeld(c *tree, w io.Writer, of, dir string, held []string) error {
	dir = path.Join(dir, "mcp/tools", fs.FileName(held[0]))
	was, err := readFile(c, path.Join(dir, "approved"))
	var is string
	if err == nil {
		is, err = readFile(c, path.Join(dir, "offered"))
	}
	if isMissing(err) {
		return nil // it is not offered any more
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s\n", fs.QuoteLine(held[0]), held[2])
	less(w, "-", was, is)
	less(w, "+", is, was)
	_, err = fmt.Fprintf(w, "\thutch approve %s %s %s\n", fs.ShellWord(of), fs.ShellWord(held[0]), held[1])
	return err
}

// less prints the lines of a text that another has not, but for the digest.
func less(w io.Writer, mark, text, other string) {
	has := make(map[string]bool)
	for line := range strings.Lines(other) {
		has[line] = true
	}
	for line := range strings.Lines(text) {
		if !has[line] && !strings.HasPrefix(line, "digest ") {
			fmt.Fprintf(w, "%s %s", mark, line)
		}
	}
}
