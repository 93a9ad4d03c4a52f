package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// album is a VM's snapshots in folders of the test.
type album struct {
	dir   string
	names []string
	held  int
}

func (a *album) snapshots() Snapshots {
	return Snapshots{
		Take: func(_ context.Context, name, _ string) error {
			a.names = append(a.names, name)
			return os.MkdirAll(filepath.Join(a.dir, name), 0o755)
		},
		List: func() ([]Snapshot, error) {
			var list []Snapshot
			for _, n := range a.names {
				list = append(list, Snapshot{Name: n})
			}
			return list, nil
		},
		Changes: func(_ context.Context, from, to string) (string, error) {
			switch to {
			case "same":
				return "", nil
			case "many":
				return strings.Repeat("changed work/"+strings.Repeat("x", 100)+"\n", 10000), nil
			}
			return "changed work/" + from + "\nadded work/" + to + "\n", nil
		},
		Drop: func(_ context.Context, name, _ string) error {
			a.names = slices.DeleteFunc(a.names, func(n string) bool { return n == name })
			return nil
		},
		Hold: func(name string) (string, func(), error) {
			if !slices.Contains(a.names, name) {
				return "", nil, errors.New("file does not exist: snapshot " + name)
			}
			a.held++
			return filepath.Join(a.dir, name), func() { a.held-- }, nil
		},
	}
}

func TestSnapshots(t *testing.T) {
	work, a := t.TempDir(), &album{dir: t.TempDir(), names: []string{"old", "mine"}}
	put(t, a.dir, "old/f", "old")
	put(t, a.dir, "old/only/here", "once")
	put(t, a.dir, "mine/f", "mine")
	put(t, a.dir, "mine/run", "#!")
	if err := errors.Join(os.Chmod(filepath.Join(a.dir, "mine/run"), 0o700), os.Symlink("/etc/passwd", filepath.Join(a.dir, "mine/out")),
		os.Mkdir(filepath.Join(work, "dir"), 0o755), os.Symlink(t.TempDir(), filepath.Join(work, "away"))); err != nil {
		t.Fatal(err)
	}
	put(t, work, "f", "now")
	put(t, work, "new", "now")
	for _, c := range []struct {
		tool, args, says string
		fails            bool
	}{
		{"snapshots_list", `{}`, "old taken , 0 files, 0 bytes\nmine taken ", false},
		{"snapshots_changes", `{}`, "changed work/mine\nadded work/now\n", false},
		{"snapshots_changes", `{"from":"old","to":"mine"}`, "changed work/old\nadded work/mine\n", false},
		{"snapshots_changes", `{"to":"same"}`, "no changes\n", false},
		{"snapshots_changes", `{"since":"old"}`, `arguments: "since" is not known`, true},
		{"snapshots_revert", `{"path":"f"}`, "restored f as it was in mine", false},
		{"snapshots_revert", `{"path":"/workspace/run"}`, "restored run as it was in mine", false},
		{"snapshots_revert", `{"path":"only/here"}`, "restored only/here as it was in old", false},
		{"snapshots_revert", `{"path":"out"}`, "restored out as it was in mine", false},
		{"snapshots_revert", `{"path":"new","snapshot":"old"}`, "deleted new as it was in old", false},
		{"snapshots_revert", `{"path":"nowhere"}`, `path "nowhere": no snapshot has it`, true},
		{"snapshots_revert", `{"path":"nowhere","snapshot":"old"}`, `path "nowhere": no such file`, true},
		{"snapshots_revert", `{"path":"f","snapshot":"none"}`, "file does not exist: snapshot none", true},
		{"snapshots_revert", `{"path":"dir"}`, `path "dir": is a directory`, true},
		{"snapshots_revert", `{"path":"only","snapshot":"old"}`, `path "only": is a directory`, true},
		{"snapshots_revert", `{"path":"away/f","snapshot":"old"}`, `path "away/f" leads out of`, true},
		{"snapshots_revert", `{"path":"../f"}`, `".." is not allowed`, true},
		{"snapshots_revert", `{}`, "path is missing", true},
		{"snapshots_create", `{"name":"try"}`, "took mcp-try", false},
		{"snapshots_create", `{}`, "name is missing", true},
		{"snapshots_delete", `{"snapshot":"mine"}`, `snapshot "mine" was not taken by a tool`, true},
		{"snapshots_delete", `{"snapshot":"mcp-try"}`, "deleted mcp-try", false},
	} {
		var r answer
		if err := json.Unmarshal(New(work, a.snapshots()).Call(t.Context(), c.tool, json.RawMessage(c.args)), &r); err != nil {
			t.Fatal(err)
		}
		if r.IsError != c.fails || !strings.Contains(r.Content[0].Text, c.says) {
			t.Errorf("%s %s: %+v", c.tool, c.args, r)
		}
	}
	if a.held != 0 {
		t.Errorf("%d snapshots are still held", a.held)
	}
	for name, want := range map[string]string{"f": "mine", "run": "#!", "only/here": "once", "new": ""} {
		if got, _ := os.ReadFile(filepath.Join(work, name)); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if target, _ := os.Readlink(filepath.Join(work, "out")); target != "/etc/passwd" {
		t.Errorf("out leads to %q", target)
	}
	if st, err := os.Stat(filepath.Join(work, "run")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("run has mode %v, %v", st.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(work, ".rev*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSnapshotLimits(t *testing.T) {
	a := &album{dir: t.TempDir(), names: []string{"mine"}}
	take := func(args string) answer {
		var r answer
		if err := json.Unmarshal(New(t.TempDir(), a.snapshots()).Call(t.Context(), "snapshots_create", json.RawMessage(args)), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range agentMax {
		if r := take(`{"name":"` + string(rune('a'+i)) + `"}`); r.IsError {
			t.Errorf("snapshot %d: %+v", i, r)
		}
	}
	if r := take(`{"name":"more"}`); !r.IsError || !strings.Contains(r.Content[0].Text, "there are 12 snapshots taken by tools: delete one first") {
		t.Errorf("one more: %+v", r)
	}
	var r answer
	raw := New(t.TempDir(), a.snapshots()).Call(t.Context(), "snapshots_changes", json.RawMessage(`{"to":"many"}`))
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content[0].Text) > changesMax || !strings.HasSuffix(r.Content[0].Text, "x\n") || !strings.Contains(string(raw), `"complete":false`) {
		t.Errorf("many changes: %d bytes, %v", len(raw), err)
	}
	if err := json.Unmarshal(New(t.TempDir(), Snapshots{}).Call(t.Context(), "snapshots_list", nil), &r); err != nil || !r.IsError {
		t.Errorf("without snapshots: %+v, %v", r, err)
	}
}
