package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"hutch/fs"
)

// A found is a line of doctor.
type found struct {
	State string `json:"state"` // ok, warn or fail
	Check string `json:"check"`
	Text  string `json:"text"`
}

// defineDoctor has the command that says what the machine and the service lack. Of the
// machine the service tells or, where none runs, the hutchd beside us.
func defineDoctor(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	return func(ctx context.Context, _ []string) error {
		list, err := diagnosis(ctx)
		t := newTable(*asJSON, "STATE", "CHECK", "WHAT")
		for _, f := range list {
			if f.State == "fail" {
				err = errors.Join(err, exit(1))
			}
			if err := t.row(f, f.State, f.Check, f.Text); err != nil {
				return err
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
		return err
	}
}

func diagnosis(ctx context.Context) ([]found, error) {
	config, err := hostConfig()
	if err != nil {
		return nil, err
	}
	text := ""
	service := found{"warn", "service", "none runs at " + config.Address + ": hutchd starts it, and so does hutch run"}
	c, err := dial(ctx)
	switch {
	case err == nil:
		defer c.Close()
		version, verr := readFile(c, "version")
		text, err = readFile(c, "doctor")
		if err = errors.Join(verr, err); err != nil {
			return nil, err
		}
		service = ofService(config.Address, strings.TrimSpace(version))
	case errors.Is(err, os.ErrPermission):
		service = found{"fail", "service", plainText(err)}
		fallthrough
	default:
		out, err := exec.CommandContext(ctx, config.Program, "-doctor").Output()
		if text = string(out); text == "" {
			return nil, fmt.Errorf("%w: %s -doctor: %w: mk install puts it beside hutch", fs.ErrIO, config.Program, err)
		}
	}
	list := []found{service}
	for line := range strings.Lines(text) {
		state, rest := fs.CutBlank(strings.TrimSpace(line))
		check, what := fs.CutBlank(rest)
		list = append(list, found{state, check, what})
	}
	return list, nil
}

// ofService tells of a service of a version, as its file has it.
func ofService(address, version string) found {
	if words := strings.Fields(version); len(words) < 2 || words[1] != fs.Version {
		return found{"warn", "service", fmt.Sprintf("%s at %s, and this is hutch %s: start that hutchd again, of the same version", version, address, fs.Version)}
	}
	return found{"ok", "service", version + " at " + address}
}
