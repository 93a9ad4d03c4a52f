package main

import (
	"os/exec"
	"testing"

	"hutch/fs"
	"hutch/fs/need"
)

// A word of a command that is shown is what it stands for to a shell, whoever chose it.
func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"one__add": "one__add", "servers/one": "servers/one", "": "''", "a$(id)": "'a$(id)'", "a`id`": "'a`id`'", "it's": `'it'\''s'`,
		`"a"`: `'"a"'`, "a\n'$b": `$'a\n\'$b'`, "\x1b[2J\u200b\"": `$'\x1b[2J\u200b\"'`, "\xff": `$'\xff'`,
	} {
		got := fs.ShellWord(s)
		if got != want {
			t.Errorf("%q is %s, want %s", s, got, want)
		}
		cmd := exec.Command(need.Tool(t, "bash"), "-c", "printf %s "+got)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		if out, err := cmd.Output(); err != nil || string(out) != s {
			t.Errorf("a shell reads %s as %q, %v", got, out, err)
		}
	}
}

// A secret is of a name, and no path to something else.
func TestSecretFile(t *testing.T) {
	if file, err := secretFile("key"); err != nil || file != "secrets/key" {
		t.Errorf("%s, %v", file, err)
	}
	for _, name := range []string{"", "..", "../vm/dev", "a/b"} {
		if file, err := secretFile(name); err == nil {
			t.Errorf("secret %q is %s", name, file)
		}
	}
}
