// Package cmd_test ties the manual page of each program to its flags.
package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hutch/fs/node/need"
)

// pages are the programs and their pages; each program prints its flags
// for -h.
var pages = map[string]string{
	"aggd": "aggd/aggd.8", "guest": "guest/guest.8", "hutch": "hutch/hutch.1", "hutchd": "hutchd/hutchd.8", "locald": "locald/locald.8",
}

var (
	helpFlag = regexp.MustCompile(`(?m)(?:^  |\[)-([a-z][a-z-]*)`)
	pageFlag = regexp.MustCompile(`(?m)(?:^\.[A-Z]+ |\\fB|"\[?)-([a-z][a-z-]*)`)
)

func TestPagesHaveTheFlags(t *testing.T) {
	bin := need.Programs(t)
	for name, page := range pages {
		help, _ := exec.Command(filepath.Join(bin, name), "-h").CombinedOutput() // -h is an error to some
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
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

// TestPagesAreWhole checks that each page has the sections that ours have.
func TestPagesAreWhole(t *testing.T) {
	all := []string{"../fs/hutch.4", "../profiles/profile.5"}
	for _, page := range pages {
		all = append(all, page)
	}
	for _, page := range all {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "BUGS"} {
			if !strings.Contains(string(text), "\n.SH "+section+"\n") {
				t.Errorf("%s has no section %s", page, section)
			}
		}
	}
}
