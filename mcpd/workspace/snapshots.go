package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Snapshots are what the tools ask of the VM. The zero value has none.
type Snapshots struct {
	Take    func(ctx context.Context, name, trace string) error // for a call of that trace id
	List    func() ([]Snapshot, error)                          // the oldest first
	Changes func(ctx context.Context, from, to string) (string, error)
	Drop    func(ctx context.Context, name, trace string) error
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
	Undo      bool   `json:"undo,omitempty"` // it was taken for undo
}

// meant returns those that one who names none can mean: not what was taken for
// undo, perhaps for this very call.
func meant(list []Snapshot) []Snapshot {
	return slices.DeleteFunc(slices.Clone(list), func(s Snapshot) bool { return s.Undo })
}

// What the agent takes is marked by its name. It can drop only that, and take
// only so many: the others are not its own.
const (
	agentPrefix = "mcp-"
	agentMax    = 12
)

// now is what there is now, among the names of snapshots.
const now = "now"

// changesMax is how much of the changes is told.
const changesMax = 256 << 10

type takeArgs struct {
	Name string `json:"name"`
}

func snapshotsCreate(ctx context.Context, in place, a takeArgs) (*result, error) {
	if a.Name == "" {
		return nil, errors.New("name is missing")
	}
	list, err := in.snaps.List()
	if err != nil {
		return nil, err
	}
	own := 0
	for _, i := range list {
		if strings.HasPrefix(i.Name, agentPrefix) {
			own++
		}
	}
	if own >= agentMax {
		return nil, fmt.Errorf("there are %d snapshots taken by tools: delete one first", own)
	}
	name := agentPrefix + a.Name
	if err := in.snaps.Take(ctx, name, in.trace); err != nil {
		return nil, err
	}
	return &result{Content: []any{text("took %s", name)}, Structured: map[string]string{"snapshot": name}}, nil
}

type dropArgs struct {
	Snapshot string `json:"snapshot"`
}

func snapshotsDelete(ctx context.Context, in place, a dropArgs) (*result, error) {
	if !strings.HasPrefix(a.Snapshot, agentPrefix) {
		return nil, fmt.Errorf("snapshot %q was not taken by a tool: only those can be deleted by one", a.Snapshot)
	}
	if err := in.snaps.Drop(ctx, a.Snapshot, in.trace); err != nil {
		return nil, err
	}
	return &result{Content: []any{text("deleted %s", a.Snapshot)}}, nil
}

func snapshotsList(_ context.Context, in place, _ struct{}) (*result, error) {
	list, err := in.snaps.List()
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

type changesArgs struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func snapshotsChanges(ctx context.Context, in place, a changesArgs) (*result, error) {
	if a.From == "" {
		list, err := in.snaps.List()
		if err != nil {
			return nil, err
		}
		if list = meant(list); len(list) == 0 {
			return nil, errors.New("there is no snapshot")
		}
		a.From = list[len(list)-1].Name
	}
	changes, err := in.snaps.Changes(ctx, a.From, a.To)
	if err != nil {
		return nil, err
	}
	whole := len(changes) <= changesMax
	if !whole {
		changes = changes[:strings.LastIndexByte(changes[:changesMax], '\n')+1]
	}
	told := map[string]any{"from": a.From, "to": a.To, "complete": whole, "changes": strings.Split(strings.TrimSuffix(changes, "\n"), "\n")}
	if changes == "" {
		told["changes"] = []string{}
		changes = "no changes\n"
	}
	return &result{Content: []any{text("%s", changes)}, Structured: told}, nil
}
