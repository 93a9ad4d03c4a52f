package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Snapshots are what the tools ask of the VM. The zero value has none.
type Snapshots struct {
	Take    func(ctx context.Context, name string) error
	List    func() ([]Snapshot, error) // the oldest first
	Changes func(ctx context.Context, from, to string) (string, error)
	Drop    func(ctx context.Context, name string) error
	// Hold returns the workspace of a snapshot, which stays until release is called.
	Hold func(name string) (dir string, release func(), err error)
}

// A Snapshot is one in a list.
type Snapshot struct {
	Name      string `json:"name"`
	Taken     string `json:"taken"`
	Automatic bool   `json:"automatic"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
}

// What the agent takes is marked by its name. It can drop only that, and take
// only so many: the others are not its own.
const (
	agentPrefix = "mcp-"
	agentMost   = 12
)

// now is what there is now, among the names of snapshots.
const now = "now"

// changesMost is how much of the changes is told.
const changesMost = 256 << 10

// snapshotTool is a row of the table of tools for snapshots.
type snapshotTool struct {
	name string
	raw  string
	room room
	call func(ctx context.Context, s Snapshots, root *os.Root, args json.RawMessage) (*result, error)
}

var snapshotTools = []snapshotTool{
	{"snapshots_changes", snapshotsChangesRaw, comparing, snapshotsChanges},
	{"snapshots_create", snapshotsCreateRaw, changing, snapshotsCreate},
	{"snapshots_delete", snapshotsDeleteRaw, changing, snapshotsDelete},
	{"snapshots_list", snapshotsListRaw, quick, snapshotsList},
	{"snapshots_revert", snapshotsRevertRaw, changing, snapshotsRevert},
}

func findSnapshot(name string) *snapshotTool {
	for i := range snapshotTools {
		if snapshotTools[i].name == name {
			return &snapshotTools[i]
		}
	}
	return nil
}

func snapshotsCreate(ctx context.Context, s Snapshots, _ *os.Root, raw json.RawMessage) (*result, error) {
	var a struct {
		Name string `json:"name"`
	}
	if err := decode(raw, &a); err != nil {
		return nil, err
	}
	if a.Name == "" {
		return nil, errors.New("name is missing")
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	own := 0
	for _, i := range list {
		if strings.HasPrefix(i.Name, agentPrefix) {
			own++
		}
	}
	if own >= agentMost {
		return nil, fmt.Errorf("there are %d snapshots taken by tools: delete one first", own)
	}
	name := agentPrefix + a.Name
	if err := s.Take(ctx, name); err != nil {
		return nil, err
	}
	return &result{Content: []any{text("took %s", name)}, Structured: map[string]string{"snapshot": name}}, nil
}

func snapshotsDelete(ctx context.Context, s Snapshots, _ *os.Root, raw json.RawMessage) (*result, error) {
	var a struct {
		Snapshot string `json:"snapshot"`
	}
	if err := decode(raw, &a); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(a.Snapshot, agentPrefix) {
		return nil, fmt.Errorf("snapshot %q was not taken by a tool: only those can be deleted by one", a.Snapshot)
	}
	if err := s.Drop(ctx, a.Snapshot); err != nil {
		return nil, err
	}
	return &result{Content: []any{text("deleted %s", a.Snapshot)}}, nil
}

func snapshotsList(_ context.Context, s Snapshots, _ *os.Root, raw json.RawMessage) (*result, error) {
	if err := decode(raw, &struct{}{}); err != nil {
		return nil, err
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, i := range list {
		fmt.Fprintf(&b, "%s taken %s, %d files, %d bytes\n", i.Name, i.Taken, i.Files, i.Bytes)
	}
	if len(list) == 0 {
		b.WriteString("no snapshots\n")
	}
	return &result{Content: []any{text("%s", b.String())}, Structured: map[string]any{"snapshots": slices.Concat([]Snapshot{}, list)}}, nil
}

func snapshotsChanges(ctx context.Context, s Snapshots, _ *os.Root, raw json.RawMessage) (*result, error) {
	a := struct {
		From string `json:"from"`
		To   string `json:"to"`
	}{To: now}
	if err := decode(raw, &a); err != nil {
		return nil, err
	}
	if a.From == "" {
		list, err := s.List()
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, errors.New("there is no snapshot")
		}
		a.From = list[len(list)-1].Name
	}
	changes, err := s.Changes(ctx, a.From, a.To)
	if err != nil {
		return nil, err
	}
	whole := len(changes) <= changesMost
	if !whole {
		changes = changes[:strings.LastIndexByte(changes[:changesMost], '\n')+1]
	}
	told := map[string]any{"from": a.From, "to": a.To, "complete": whole, "changes": strings.Split(strings.TrimSuffix(changes, "\n"), "\n")}
	if changes == "" {
		told["changes"] = []string{}
		changes = "no changes\n"
	}
	return &result{Content: []any{text("%s", changes)}, Structured: told}, nil
}
