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
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// guestPath is where the guest has the workspace. Paths below it are taken
// for paths in the workspace.
const guestPath = "/workspace"

// A Tool is one tool as tools/list shows it.
type Tool struct {
	Name string
	Raw  json.RawMessage
}

// tool is a row of the table of tools.
type tool struct {
	name string
	raw  string
	call func(ctx context.Context, root *os.Root, args json.RawMessage) (*result, error)
}

var tools = []tool{
	{"dir_create", dirCreateRaw, dirCreate},
	{"dir_list", dirListRaw, dirList},
	{"file_delete", fileDeleteRaw, fileDelete},
	{"file_list", fileListRaw, fileList},
	{"file_read", fileReadRaw, fileRead},
	{"file_write", fileWriteRaw, fileWrite},
}

// Tools returns the tools, sorted by name.
func Tools() []Tool {
	var list []Tool
	for _, t := range tools {
		list = append(list, Tool{t.name, json.RawMessage(t.raw)})
	}
	for _, t := range snapshotTools {
		list = append(list, Tool{t.name, json.RawMessage(t.raw)})
	}
	return list
}

// Has reports whether there is a tool of that name.
func Has(name string) bool { return find(name) != nil || findSnapshot(name) != nil }

func find(name string) *tool {
	for i := range tools {
		if tools[i].name == name {
			return &tools[i]
		}
	}
	return nil
}

// A Workspace is that of a VM.
type Workspace struct {
	dir   string
	snaps Snapshots
	rooms [len(roomFor)]chan struct{}
}

// A room is where calls run that may run beside each other; the others wait. A
// guest can make thousands at once, and each takes descriptors.
type room int

const (
	quick room = iota
	changing
	comparing
)

// roomFor says for how many calls there is room.
var roomFor = [...]int{quick: 16, changing: 1, comparing: 1}

// New returns the workspace in the folder dir, of a VM with these snapshots.
func New(dir string, s Snapshots) *Workspace {
	w := &Workspace{dir: dir, snaps: s}
	for i, n := range roomFor {
		w.rooms[i] = make(chan struct{}, n)
	}
	return w
}

// Call calls a tool and returns its tools/call result.
func (w *Workspace) Call(ctx context.Context, name string, args json.RawMessage) json.RawMessage {
	t, of := find(name), findSnapshot(name)
	in := quick
	switch {
	case t == nil && of == nil:
		return refusal(fmt.Errorf("no tool %q", name))
	case of != nil && w.snaps.List == nil:
		return refusal(fmt.Errorf("%s: there are no snapshots here", name))
	case of != nil:
		in = of.room
	}
	select {
	case w.rooms[in] <- struct{}{}:
		defer func() { <-w.rooms[in] }()
	case <-ctx.Done():
		return refusal(fmt.Errorf("%s: %w", name, context.Cause(ctx)))
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return refusal(fmt.Errorf("%s: workspace: %w", name, bare(err)))
	}
	defer root.Close()
	var r *result
	if t != nil {
		r, err = t.call(ctx, root, args)
	} else {
		r, err = of.call(ctx, w.snaps, root, args)
	}
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
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return refusal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
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
		return fmt.Errorf("argument %q: a %s is not what it takes", mistyped.Field, mistyped.Value)
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

// readAt reads up to n bytes at off.
func readAt(f *os.File, off, n int64) ([]byte, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, off, n))
	if err != nil {
		return nil, bare(err)
	}
	return b, nil
}
