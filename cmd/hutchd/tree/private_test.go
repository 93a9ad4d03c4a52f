package tree

import (
	"os"
	"slices"
	"testing"

	"hutch/fs"
)

// everybody are the rows that others than hutchd's user may read where they may use the
// mount: what there is, and how it is. A row that is not here is for that user alone.
var everybody = []string{
	"README", "status", "version", "metrics", "drivers", "info", "schema", "description", "approved", "offered",
	"servers", "members",
	// directories, of whose rows each says for itself
	"images", "registry", "db", "groups", "vm", "NAME", "tools", "resources", "prompts", "tcp", "mcp",
	"TOOL", "PROMPT", "SERVER__TOOL", "SERVER__PROMPT", "SERVER__URI", "env", "work", // the last two have modes of their own
}

// TestPrivate has others read no record, no log and nothing of a guest.
func TestPrivate(t *testing.T) { private(t, "", rows()) }

// TestStatusOfOthers shows them no line that tells what was said or done.
func TestStatusOfOthers(t *testing.T) {
	const status = "failed\nmade 2026-01-01T00:00:00Z\nreason hunter2\nsince 2026-01-02T00:00:00Z\ncall 1 2s tools/call x\nnote hunter2\n"
	for who, want := range map[fs.Principal]string{
		{UID: 65534}: "failed\nsince 2026-01-02T00:00:00Z\n", {UID: 65534, User: "root"}: "failed\nsince 2026-01-02T00:00:00Z\n",
		{}: status, {UID: uint32(os.Getuid())}: status, {UID: fs.NoUID, User: "glenda"}: status,
	} {
		if got := shownTo(who, status); got != want {
			t.Errorf("%v: %q", who, got)
		}
	}
}

func private(t *testing.T, dir string, rows []row) {
	for _, r := range rows {
		if r.Perm&0o077 == 0 {
			continue // nor what is below it
		}
		if !slices.Contains(everybody, r.Name) {
			t.Errorf("%s%s: mode %o lets everybody read it", dir, r.Name, r.Perm)
		}
		if dir != "" && r.Name == "servers" && r.Read != nil {
			t.Errorf("%s%s: everybody may read what servers said", dir, r.Name)
		}
		if r.Perm&0o022 != 0 {
			t.Errorf("%s%s: mode %o lets everybody write it", dir, r.Name, r.Perm)
		}
		private(t, dir+r.Name+"/", r.Rows)
		private(t, dir+r.Name+"/", r.Each)
	}
}
