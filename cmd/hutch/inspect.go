package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"

	"hutch/fs"
)

// inspected are the files that tell of a thing, by the folder that it is in.
var inspected = map[string][]string{"vm": {"status", "config"}, "servers": {"status", "config"}, "groups": {"status", "config"}, "images": {"status", "info"}}

// defineInspect has the command that prints all that is known of a VM, a server, a group
// or an image.
func defineInspect(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		dir, err := thingIn(c, args[0])
		if err != nil {
			return err
		}
		all := map[string]any{"name": path.Base(dir)}
		for _, name := range inspected[path.Dir(dir)] {
			text, err := readFile(c, path.Join(dir, name))
			if err != nil {
				return noPlace(c, dir, err)
			}
			if name == "status" {
				text = "state " + text
			}
			switch all[name] = any(valuesOf(text)); {
			case json.Valid([]byte(text)):
				all[name] = json.RawMessage(text)
			case path.Dir(dir) == "groups" && name == "config": // YAML
				all[name] = text
			}
			if !*asJSON {
				fmt.Printf("# %s\n%s\n", path.Join(dir, name), strings.TrimSuffix(text, "\n"))
			}
		}
		if path.Dir(dir) == "vm" {
			ports, err := portsOf(c, dir)
			snaps, serr := folders(c, path.Join(dir, "snap"))
			execs, eerr := folders(c, path.Join(dir, "exec"))
			all["snapshots"], all["commands"], all["ports"] = elements(snaps, serr), elements(execs, eerr), elements(ports, err)
			if !*asJSON {
				for _, line := range [][2]string{{"snapshots", fs.QuoteAll(snaps)}, {"commands", fs.QuoteAll(execs)}, {"ports", portWords(ports)}} {
					if line[1] != "" {
						fmt.Println(line[0], line[1])
					}
				}
			}
		}
		if *asJSON {
			return printJSON(os.Stdout, all)
		}
		return nil
	})
}

// elements is what JSON has of a list: [] of an empty one, null of one that is not known.
func elements[T any](l []T, err error) []T {
	if err == nil && l == nil {
		l = []T{}
	}
	return l
}

// thingIn is placeIn, but it takes an image, too.
func thingIn(c *tree, what string) (string, error) {
	if name, found := strings.CutPrefix(what, "images/"); found {
		dir, err := imageDir(name)
		if err == nil {
			_, err = c.stat(dir)
			err = missing(c, dir, err, fmt.Sprintf("no image %q; hutch images lists them", name))
		}
		return dir, err
	}
	return placeIn(c, what)
}

// valuesOf returns the values of key value lines, also of those behind "# default:". A key
// with several lines has a list.
func valuesOf(text string) map[string]any {
	all := map[string]any{}
	for line := range strings.Lines(text) {
		key, value := fs.CutBlank(strings.TrimSpace(strings.TrimPrefix(line, "# default:")))
		value = strings.TrimSpace(value)
		switch said := all[key].(type) {
		case string:
			all[key] = []string{said, value}
		case []string:
			all[key] = append(said, value)
		default:
			if key != "" && key[0] != '#' {
				all[key] = value
			}
		}
	}
	return all
}
