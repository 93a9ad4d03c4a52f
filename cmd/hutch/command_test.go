package main

import (
	"flag"
	"os/exec"
	"testing"

	"hutch/fs/need"
)

// TestCompletionZsh reads the script as people have a shell read it, and as zsh does by itself.
func TestCompletionZsh(t *testing.T) {
	const script = `autoload -U compinit; compinit -D -u
eval "$1"; print $_comps[hutch]; unfunction _hutch
compadd() { print -r -- $* }; hutch() { print a }
eval "_hutch() { $1 }"; words=(hutch ""); CURRENT=2; _hutch`
	out, err := exec.Command(need.Tool(t, "zsh"), "-fc", script, "zsh", completions["zsh"]).CombinedOutput()
	if err != nil || string(out) != "_hutch\n-S --\n-- a\n" {
		t.Errorf("%v: zsh says %q", err, out)
	}
}

func TestSuggestion(t *testing.T) {
	for typed, want := range map[string]string{
		"strat": ": did you mean start?", "exce": ": did you mean exec?", "sps": ": did you mean ps?",
		"image": ": did you mean images?", "forkk": ": did you mean fork?", "remove": ": did you mean rm?", "top": ": did you mean stats?",
		"groups": ": did you mean group ls?", "xyzzy": "", "": "",
	} {
		if got := suggestion(typed); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

func TestImageName(t *testing.T) {
	for ref, want := range map[string]string{
		"debian:12": "debian-12", "docker.io/library/debian": "debian", "localhost:5000/a/b:1.0": "b-1.0",
		"x@sha256:00": "x", "rootfs.tar.gz": "rootfs", "a b.tar": "a-b", "..": "",
	} {
		if got := imageName(ref); got != want {
			t.Errorf("%q: %q, want %q", ref, got, want)
		}
	}
}

// Flags may stand behind what they are not of, but where words follow that are
// for another program, however the usage calls these.
func TestSplit(t *testing.T) {
	for _, words := range []bool{false, true} {
		c := command{name: "do", args: "[FLAGS] CMD…", words: words}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		set := flags.Bool("f", false, "")
		rest, err := c.split(flags, []string{"a", "-f"})
		if *set == words || len(rest) == 1 == words || err != nil {
			t.Errorf("words %v: -f %v, %q, %v", words, *set, rest, err)
		}
	}
}
