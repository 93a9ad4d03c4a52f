// Package workspace offers a VM's workspace, a folder of the host, as MCP
// tools. Every access goes through os.Root: no path and no symbolic link
// leads out of the folder, whatever the guest does to it meanwhile.
//
// What goes wrong inside a tool, bad arguments among it, is a result with
// isError set, as the protocol wants it: the model reads it and tries again.
package workspace

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// guestPath is where the guest has the workspace. Paths below it are taken
// for paths in the workspace.
const guestPath = "/workspace"

// Server is the name that the ledger and the policy have for the tools' server.
const Server = "file"

// tool is a row of the table of tools.
type tool struct {
	name  string
	room  room
	snaps bool // it is for snapshots
	call  func(ctx context.Context, in place, args json.RawMessage) (*result, error)
}

// A place is where a tool works.
type place struct {
	root  *os.Root
	snaps Snapshots
}

var tools = []tool{
	{name: "dir_create", call: taking(createArgs{Parents: true}, dirCreate)},
	{name: "dir_list", room: listed, call: taking(listArgs{target: target{"."}}, dirList)},
	{name: "file_delete", call: taking(target{}, fileDelete)},
	{name: "file_list", room: listed, call: taking(listArgs{target: target{"."}, Recursive: true}, fileList)},
	{name: "file_read", call: taking(readArgs{Encoding: "auto"}, fileRead)},
	{name: "file_write", call: taking(writeArgs{Encoding: "utf-8", Mode: "overwrite", Parents: true}, fileWrite)},
	{name: "snapshots_changes", room: comparing, snaps: true, call: taking(changesArgs{To: now}, snapshotsChanges)},
	{name: "snapshots_create", room: changing, snaps: true, call: taking(takeArgs{}, snapshotsCreate)},
	{name: "snapshots_delete", room: changing, snaps: true, call: taking(dropArgs{}, snapshotsDelete)},
	{name: "snapshots_list", snaps: true, call: taking(struct{}{}, snapshotsList)},
	{name: "snapshots_revert", room: changing, snaps: true, call: taking(revertArgs{}, snapshotsRevert)},
}

// A target is what a tool is about: the argument of all that have a path.
type target struct {
	Path string `json:"path"` // as os.Root takes it once the arguments are read
}

func (t *target) clean() (err error) {
	t.Path, err = clean(t.Path)
	return err
}

// taking returns what a tool does with its arguments; those that are not given
// are as in standard.
func taking[A any](standard A, do func(context.Context, place, A) (*result, error)) func(context.Context, place, json.RawMessage) (*result, error) {
	return func(ctx context.Context, in place, args json.RawMessage) (*result, error) {
		a := standard
		if err := decode(args, &a); err != nil {
			return nil, err
		}
		if t, ok := any(&a).(interface{ clean() error }); ok {
			if err := t.clean(); err != nil {
				return nil, err
			}
		}
		return do(ctx, in, a)
	}
}

// shown is the tools as tools/list shows them, by name.
//
//go:embed tools.json
var shown []byte

// A Workspace is that of a VM.
type Workspace struct {
	dir   string
	snaps Snapshots
	rooms [len(roomFor)]chan struct{}
}

// Tools returns the tools, sorted by name.
func (w *Workspace) Tools() []wire.Item {
	var list []wire.Item
	for i := range tools {
		if t := &tools[i]; w.offers(t) {
			var line bytes.Buffer
			json.Compact(&line, rawjson.Get(shown, t.name))
			list = append(list, wire.Item{Name: t.name, Original: t.name, Server: Server, Raw: line.Bytes()})
		}
	}
	return list
}

// offers says whether there is what the tool is for.
func (w *Workspace) offers(t *tool) bool {
	return w.dir != "" && (!t.snaps || w.snaps.List != nil)
}

// Has reports whether there is a tool of that name.
func (w *Workspace) Has(name string) bool { return w.find(name) != nil }

func (w *Workspace) find(name string) *tool {
	for i := range tools {
		if t := &tools[i]; t.name == name && w.offers(t) {
			return t
		}
	}
	return nil
}

// A room is where calls run that may run beside each other; the others wait. A
// guest can make thousands at once, and each takes descriptors.
type room int

const (
	quick room = iota
	listed
	changing
	comparing
)

// roomFor says for how many calls there is room.
var roomFor = [...]int{quick: 16, listed: 2, changing: 1, comparing: 1}

// New returns the workspace in the folder dir, of a VM with these snapshots.
// Without a folder there are no tools, and without snapshots none for them.
func New(dir string, s Snapshots) *Workspace {
	w := &Workspace{dir: dir, snaps: s}
	for i, n := range roomFor {
		w.rooms[i] = make(chan struct{}, n)
	}
	return w
}

// Call calls a tool and returns its tools/call result.
func (w *Workspace) Call(ctx context.Context, name string, args json.RawMessage) json.RawMessage {
	t := w.find(name)
	if t == nil {
		return refusal(fmt.Errorf("no tool %q", name))
	}
	select {
	case w.rooms[t.room] <- struct{}{}:
		defer func() { <-w.rooms[t.room] }()
	case <-ctx.Done():
		return refusal(fmt.Errorf("%s: %w", name, context.Cause(ctx)))
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return refusal(fmt.Errorf("%s: workspace: %w", name, bare(err)))
	}
	defer root.Close()
	r, err := t.call(ctx, place{root, w.snaps}, args)
	if err != nil {
		return refusal(fmt.Errorf("%s: %w", name, err))
	}
	return r.encode()
}

// A result is what a tool answers: blocks of content, and the same facts for
// programs.
type result struct {
	Content    []any `json:"content"`
	Structured any   `json:"structuredContent,omitempty"`
	IsError    bool  `json:"isError,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func text(format string, args ...any) textBlock {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return textBlock{"text", format}
}

func (r *result) encode() json.RawMessage {
	b, err := rawjson.Encode(r)
	if err != nil {
		return refusal(err)
	}
	return b
}

func refusal(err error) json.RawMessage {
	r := result{Content: []any{textBlock{"text", err.Error()}}, IsError: true}
	return r.encode()
}

// decode reads a tool's arguments. Unknown ones are refused: they are
// misspelt ones.
func decode(args json.RawMessage, into any) error {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field != "" {
		name := strings.TrimPrefix(mistyped.Field, "target.")
		return fmt.Errorf("argument %q: a %s is not what it takes", name, mistyped.Value)
	}
	if err != nil {
		return fmt.Errorf("arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// clean returns the path p as os.Root takes it.
func clean(p string) (string, error) {
	switch {
	case p == "":
		return "", errors.New("path is missing")
	case strings.ContainsRune(p, 0):
		return "", fmt.Errorf("path %q: contains a NUL", p)
	case p == guestPath || strings.HasPrefix(p, guestPath+"/"):
		p = "." + strings.TrimPrefix(p, guestPath)
	case path.IsAbs(p):
		return "", fmt.Errorf("path %q: is outside %s", p, guestPath)
	}
	for elem := range strings.SplitSeq(p, "/") {
		if elem == ".." {
			return "", fmt.Errorf("path %q: \"..\" is not allowed", p)
		}
	}
	return path.Clean(p), nil
}

// bare returns err without the operation and path that package os puts
// before it, which the caller says better.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

func at(p string, err error) error {
	return fmt.Errorf("path %q: %w", p, bare(err))
}

// openRegular opens a regular file. It never waits for the other end of a
// FIFO that the guest may have put there.
func openRegular(root *os.Root, name string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, flags|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, at(name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("is a %s, not a regular file", kind(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, nil, at(name, err)
	}
	return f, info, nil
}

// kind names the type of a file.
func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "dir"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
