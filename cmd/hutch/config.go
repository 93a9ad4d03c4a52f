package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"hutch/fs"
	"hutch/profiles"
)

// defineConfig has the command that prints a VM's config, prints a line of
// it, or changes one.
func defineConfig(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print it as JSON")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		dir, err := vmDir(args[0])
		if err != nil {
			return err
		}
		if len(args) > 2 {
			return tellVM(c, args[0], "set "+fs.Quote(args[1])+" "+fs.Quote(strings.Join(args[2:], " ")))
		}
		text, err := readFile(c, dir+"/config")
		switch {
		case err != nil:
			return noVM(c, args[0], err)
		case len(args) == 2:
			value, said := pairs(text)[args[1]]
			if !said {
				return notSet(args[0], args[1])
			}
			_, err := fmt.Println(value)
			return err
		case *asJSON:
			return printJSON(os.Stdout, pairs(text))
		}
		_, err = os.Stdout.WriteString(text)
		return err
	})
}

// notSet says why the config of a VM has no line of a key.
func notSet(vm, key string) error {
	if k := profiles.FindKey(key); k == nil || k.In&profiles.InConfig == 0 {
		return profiles.UnknownKey(key)
	}
	return fmt.Errorf("%w: config of VM %s does not set %s: its profile or the default holds", fs.ErrNotExist, vm, key)
}

// pairs returns what key value lines say, of which the last of a key counts,
// and all of mount.
func pairs(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		key, value := fs.CutBlank(strings.TrimSpace(line))
		if value = strings.TrimSpace(value); key == "mount" && value != "" && m[key] != "" {
			value = m[key] + " " + value // these add up
		}
		if key != "" && key[0] != '#' {
			m[key] = value
		}
	}
	return m
}
