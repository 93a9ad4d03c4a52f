package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hutch/fs/need"
)

// pages are the programs and their pages; each program prints its flags
// for -h.
var pages = map[string]string{
	"aggd": "aggd/aggd.8", "guest": "guest/guest.8", "hutch": "hutch/hutch.1", "hutchd": "hutchd/hutchd.8", "locald": "locald/locald.8",
}

var (
	helpFlag    = regexp.MustCompile(`(?m)(?:^  |\[)-([A-Za-z][a-z-]*)`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z0-9][a-z0-9-]*) `)
	pageFlag    = regexp.MustCompile(`(?m)(?:^\.[A-Z]+ |\\fB|"\[?)-([A-Za-z][a-z-]*)`)
)

func TestPagesHaveTheFlags(t *testing.T) {
	bin := need.Programs(t)
	for name, page := range pages {
		help, _ := exec.Command(filepath.Join(bin, name), "-h").CombinedOutput() // -h is an error to some
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range helpCommand.FindAllSubmatch(help, -1) { // each has flags of its own
			more, _ := exec.Command(filepath.Join(bin, name), "help", string(m[1])).CombinedOutput()
			help = append(help, more...)
			if !strings.Contains(string(text), "\n.BR "+string(m[1])+" ") && !strings.Contains(string(text), "\n.B "+string(m[1])+"\n") {
				t.Errorf("%s has no command %s", page, m[1])
			}
		}
		inHelp := flags(helpFlag, string(help))
		inPage := flags(pageFlag, strings.ReplaceAll(string(text), `\-`, "-"))
		if len(inHelp) == 0 && name != "guest" {
			t.Errorf("%s -h tells no flag: %s", name, help)
		}
		for _, f := range inHelp {
			if !slices.Contains(inPage, f) {
				t.Errorf("%s has no -%s", page, f)
			}
		}
		for _, f := range inPage {
			if !slices.Contains(inHelp, f) {
				t.Errorf("%s has -%s, %s has not", page, f, name)
			}
		}
	}
}

// TestHelpOfRelay asks the guest's program for its usage by the name that it
// has in a guest.
func TestHelpOfRelay(t *testing.T) {
	bin := need.Programs(t)
	for args, want := range map[string]string{"-h": "usage: hutch-relay [-seal] [NAME] | call ", "call -h": "usage: hutch-relay call [-json]"} {
		cmd := exec.Command(filepath.Join(bin, "guest"), strings.Fields(args)...)
		cmd.Args[0] = "/opt/hutch/bin/hutch-relay"
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("hutch-relay %s: %v, %q", args, err, out)
		}
	}
}

func flags(re *regexp.Regexp, text string) []string {
	var list []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		if m[1] != "h" {
			list = append(list, m[1])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestPagesAreWhole checks that each page has the sections that ours have, and no
// control characters.
func TestPagesAreWhole(t *testing.T) {
	all := []string{"hutch/hutch-mcp.1", "hutchd/tree/hutch.4", "../profiles/profile.5", "../profiles/policy.5", "../profiles/seal.5", "../profiles/registry/registry.5", "../profiles/runconfig/server.5", "../mcpd/ledger/mcp.5", "../mcpd/vmcp/vmcp.5", "../mcpd/composite/composite.5"}
	for _, page := range pages {
		all = append(all, page)
	}
	for _, page := range all {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }); at >= 0 {
			t.Errorf("%s has a control character at %d: %.20q", page, at, text[at:])
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "BUGS"} {
			if !strings.Contains(string(text), "\n.SH "+section+"\n") {
				t.Errorf("%s has no section %s", page, section)
			}
		}
	}
}
