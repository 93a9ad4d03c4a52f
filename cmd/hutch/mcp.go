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
		config, err := hostConfig()
		if err != nil {
			return err
		}
		config.Args, config.Prefix = args, *prefix
		return hostmcp.Serve(ctx, config, os.Stdin, os.Stdout)
	}
}

// hostConfig says where the service is, and which hutchd it is that is started where
// there is none.
func hostConfig() (hostmcp.Config, error) {
	program, err := os.Executable()
	return hostmcp.Config{
		Address: cmp.Or(*address, ninep.DefaultAddress()),
		Program: filepath.Join(filepath.Dir(program), "hutchd"),
		Version: fs.Version, Log: os.Stderr,
	}, err
}

// started is connected, to a service that is started where none runs.
func started(act func(ctx context.Context, c *tree, args []string) error) action {
	return func(ctx context.Context, args []string) error {
		config, err := hostConfig()
		if err != nil {
			return err
		}
		c, err := dial(ctx)
		if hostmcp.Nobody(config.Address, err) {
			if err := hostmcp.Start(ctx, config); err != nil {
				return err
			}
			c, err = dial(ctx)
		}
		if err != nil {
			return err
		}
		defer c.Close()
		return act(ctx, c, args)
	}
}
