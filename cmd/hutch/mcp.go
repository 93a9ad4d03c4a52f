package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hutch/cmd/hutch/hostmcp"
	"hutch/fs"
	"hutch/fs/ninep"
)

// defineMCP has the command that is the host MCP server on our standard files.
func defineMCP(flags *flag.FlagSet) action {
	prefix := flags.String("prefix", "hutch_", "begin the names of tools with `text`; capsem_ makes them Capsem's")
	return func(ctx context.Context, args []string) error {
		if strings.Trim(*prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return fmt.Errorf("%w: -prefix %s: letters, digits, _ and - make names of tools", fs.ErrInvalid, fs.QuoteLine(*prefix))
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		return hostmcp.Serve(ctx, hostmcp.Config{
			Address: cmp.Or(*address, ninep.DefaultAddress()),
			Program: filepath.Join(filepath.Dir(program), "hutchd"),
			Args:    args, Prefix: *prefix, Version: fs.Version, Log: os.Stderr,
		}, os.Stdin, os.Stdout)
	}
}
