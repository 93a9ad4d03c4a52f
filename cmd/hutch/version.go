package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"hutch/fs"
)

// defineVersion has the command that prints the version of this program and
// of the service, if one runs.
func defineVersion(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print them as JSON")
	return func(ctx context.Context, _ []string) error {
		own := "hutch " + fs.Version + " " + revision() + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
		service := "not running"
		if c, err := dial(ctx); err == nil {
			defer c.Close()
			text, err := readFile(c, "version")
			if err != nil {
				return err
			}
			service = strings.TrimSpace(text)
		}
		if *asJSON {
			return printJSON(os.Stdout, map[string]string{"hutch": own, "service": service})
		}
		_, err := fmt.Printf("%s\nservice: %s\n", own, service)
		return err
	}
}

// revision is of what commit this program was built, as far as the build was told.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version + " "
	}
	return ""
}
