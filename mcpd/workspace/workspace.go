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
	"sync/atomic"
	"syscall"

	"hutch/aggd/rawjson"
	"hutch/aggd/storage"
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
	// operation is what it does to the file that its path names; "": it has none.
	operation string
	itself    bool // where the path ends in a link, the operation is on that
	stored    bool // it works on the storage, wherever that is
	changes   bool // it may change files
	take      func(args json.RawMessage) task
}

// A place is where a tool works.
type place struct {
	root  *os.Root
	store storage.Storage
	snaps Snapshots
	trace string // the id of the call's

	admits func(name string) bool // whether a search may look into what is below its path
}

var tools = []tool{
	{name: "dir_create", operation: "mkdir", changes: true, itself: true, take: taking(createArgs{Parents: true}, dirCreate)},
	{name: "dir_list", operation: "list", room: listed, take: taking(listArgs{target: target{Path: "."}}, dirList)},
	{name: "file_delete", operation: "delete", changes: true, itself: true, take: taking(target{}, fileDelete)},
	{name: "file_list", operation: "list", room: listed, take: taking(listArgs{target: target{Path: "."}, Recursive: true}, fileList)},
	{name: "file_read", operation: "read", take: taking(readArgs{Encoding: "auto"}, fileRead)},
	{name: "file_write", operation: "write", changes: true, take: taking(writeArgs{content: content{Encoding: "utf-8"}, Mode: "overwrite", Parents: true}, fileWrite)},
	{name: "fs.create", operation: "create", changes: true, stored: true, take: taking(putArgs{target: target{strict: true}, content: content{Content: new(string), Encoding: "utf-8"}}, fsPut(storage.New))},
	{name: "fs.delete", operation: "delete", changes: true, itself: true, stored: true, take: taking(target{strict: true}, fsDelete)},
	{name: "fs.edit", operation: "edit", changes: true, stored: true, take: taking(editArgs{target: target{strict: true}}, fsEdit)},
	{name: "fs.glob", operation: "glob", stored: true, room: listed, take: taking(globArgs{target: top}, fsGlob)},
	{name: "fs.grep", operation: "grep", stored: true, room: listed, take: taking(grepArgs{target: top}, fsGrep)},
	{name: "fs.list", operation: "list", stored: true, room: listed, take: taking(fsListArgs{target: top}, fsList)},
	{name: "fs.read", operation: "read", stored: true, take: taking(readArgs{target: target{strict: true}, Encoding: "auto"}, fsRead)},
	{name: "fs.write", operation: "write", changes: true, stored: true, take: taking(putArgs{target: target{strict: true}, content: content{Encoding: "utf-8"}}, fsPut(storage.Whatever))},
	{name: "snapshots_changes", room: comparing, snaps: true, take: taking(changesArgs{To: now}, snapshotsChanges)},
	{name: "snapshots_create", room: changing, snaps: true, take: taking(takeArgs{}, snapshotsCreate)},
	{name: "snapshots_delete", room: changing, snaps: true, take: taking(dropArgs{}, snapshotsDelete)},
	{name: "snapshots_list", snaps: true, take: taking(struct{}{}, snapshotsList)},
	{name: "snapshots_revert", operation: "revert", changes: true, itself: true, room: changing, snaps: true, take: taking(revertArgs{}, snapshotsRevert)},
}

// A target is what a tool is about: the argument of all that have a path.
type target struct {
	Path   string `json:"path"` // as os.Root takes it once the arguments are read
	strict bool   // refuse all that anyone could take for a ".."
}

// top is where the tools fs.* begin that can be told nothing.
var top = target{Path: ".", strict: true}

func (t *target) clean() (err error) {
	if t.strict {
		if err := checkStrict(t.Path); err != nil {
			return err
		}
	}
	t.Path, err = clean(t.Path)
	return err
}

func (t target) file() string { return t.Path }

// A task is what a tool is to do, as its arguments say.
type task struct {
	path string // that it is about, "" if there is none
	put  int64  // how many bytes it is to write
	err  error  // why it cannot be done
	do   func(context.Context, place) (*result, error)
}

// taking returns what a tool makes of its arguments; those that are not given
// are as in standard.
func taking[A any](standard A, do func(context.Context, place, A) (*result, error)) func(json.RawMessage) task {
	return func(args json.RawMessage) (t task) {
		a := standard
		if err := rawjson.Decode(args, &a); err != nil { // an unknown one is a misspelt one
			t.err = fmt.Errorf("arguments: %w", err)
			return t
		}
		if p, ok := any(&a).(interface{ clean() error }); ok {
			if t.err = p.clean(); t.err != nil {
				return t
			}
		}
		if p, ok := any(&a).(interface{ file() string }); ok {
			t.path = p.file()
		}
		if p, ok := any(&a).(interface{ size() int64 }); ok {
			t.put = p.size()
		}
		t.do = func(ctx context.Context, in place) (*result, error) { return do(ctx, in, a) }
		return t
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
	store atomic.Pointer[storage.Storage] // nil: the folder
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
	far // on storage that is not the folder, and may be slow
)

// roomFor says for how many calls there is room.
var roomFor = [...]int{quick: 16, listed: 2, changing: 1, comparing: 1, far: 8}

// New returns the workspace in the folder dir, of a VM with these snapshots.
// Without a folder there are no tools, and without snapshots none for them.
func New(dir string, s Snapshots) *Workspace {
	w := &Workspace{dir: dir, snaps: s}
	for i, n := range roomFor {
		w.rooms[i] = make(chan struct{}, n)
	}
	return w
}

// SetStorage has the tools fs.* work on s; nil: on the folder. Calls under way go on
// where they began.
func (w *Workspace) SetStorage(s storage.Storage) {
	if s == nil {
		w.store.Store(nil)
		return
	}
	w.store.Store(&s)
}

// A result is what a tool answers: blocks of content, and the same facts for
// programs.
type result struct {
	Content    []any `json:"content"`
	Structured any   `json:"structuredContent,omitempty"`
	IsError    bool  `json:"isError,omitempty"`

	bytes int64 // of files that were read or written
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
		return "", &Traversal{path: p, outside: "is outside " + guestPath}
	}
	for elem := range strings.SplitSeq(p, "/") {
		if elem == ".." {
			return "", &Traversal{path: p, outside: `".." is not allowed`}
		}
	}
	return path.Clean(p), nil
}

// guestName is the guest's name for a path in the workspace.
func guestName(p string) string { return path.Join(guestPath, p) }

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

// openDir opens a directory, and never waits for what a guest may put in its place.
func openDir(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
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
