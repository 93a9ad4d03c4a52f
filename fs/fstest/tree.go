// Package fstest makes a small tree in memory for the tests of the
// frontends. It has one file of each kind that a frontend must treat in its
// own way:
//
//	status     fixed text
//	ctl        records what is written to it; the message "bad" is refused,
//	           and "slow" takes until Release
//	events     a stream: reads give what was pushed, and block at the end
//	wait       reads and writes block until they are cancelled
//	big        zeros, as many as SetBig said
//	link       a symbolic link to status
//	many/      a hundred text files, f00 to f99
//	deep/a/b/c/leaf
//	store/     files and directories in memory that can be made, renamed,
//	           removed and truncated
package fstest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"hutch/fs"
)

// Status is the text of the file status.
const Status = "running\nimage host\n"

// born is the time of every made-up file.
var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A Tree is a tree and what a test can see and do behind its back.
type Tree struct {
	mu       sync.Mutex // guards all below
	changed  chan struct{}
	events   []byte
	ended    bool
	messages []string
	released bool
	big      uint64
	handles  int // open ones
	closed   int
	blocked  int // reads and writes waiting
	lastQid  uint64
	store    *inode
	root     *dir
}

// New returns a tree with an empty store and no events.
func New() *Tree {
	t := &Tree{changed: make(chan struct{}), big: 1 << 20}
	t.store = t.inode(os.ModeDir | 0o755)
	many := t.dir("many")
	for i := range 100 {
		name := fmt.Sprintf("f%02d", i)
		many.add(name, t.text(name, name+"\n"))
	}
	deep := t.dir("deep")
	d := deep
	for _, name := range []string{"a", "b", "c"} {
		sub := t.dir(name)
		d.add(name, sub)
		d = sub
	}
	d.add("leaf", t.text("leaf", "leaf\n"))

	t.root = t.dir("/")
	t.root.add("status", t.text("status", Status))
	t.root.add("ctl", &ctlFile{t.made("ctl", 0o644)})
	t.root.add("events", &eventFile{t.made("events", 0o444)})
	t.root.add("wait", &waitFile{t.made("wait", 0o666)})
	t.root.add("big", &bigFile{t.made("big", 0o444)})
	t.root.add("link", &linkFile{t.made("link", os.ModeSymlink|0o777)})
	t.root.add("many", many)
	t.root.add("deep", deep)
	t.root.add("store", &stored{t: t, in: t.store, name: "store"})
	return t
}

// Root returns the tree's root.
func (t *Tree) Root() fs.Node { return t.root }

// Push appends text to the stream events and wakes its readers.
func (t *Tree) Push(text string) {
	t.update(func() { t.events = append(t.events, text...) })
}

// End ends the stream events: its readers get end of file.
func (t *Tree) End() { t.update(func() { t.ended = true }) }

// Release lets slow messages come to their end.
func (t *Tree) Release() { t.update(func() { t.released = true }) }

// SetBig sets the size of the file big.
func (t *Tree) SetBig(n uint64) { t.update(func() { t.big = n }) }

// Messages returns what was written to ctl so far, a string a write.
func (t *Tree) Messages() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.messages...)
}

// Stored returns the content of the file at name directly below store.
func (t *Tree) Stored(name string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in, ok := t.store.entries[name]
	if !ok {
		return "", false
	}
	return string(in.data), true
}

// Handles returns how many handles are open and how many were closed.
func (t *Tree) Handles() (open, closed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handles, t.closed
}

// AwaitHandles waits until n handles are open.
func (t *Tree) AwaitHandles(ctx context.Context, n int) error {
	return t.await(ctx, func() bool { return t.handles == n })
}

// AwaitBlocked waits until n reads and writes block.
func (t *Tree) AwaitBlocked(ctx context.Context, n int) error {
	return t.await(ctx, func() bool { return t.blocked == n })
}

// await waits until cond, which is called with mu held, is true.
func (t *Tree) await(ctx context.Context, cond func() bool) error {
	for {
		t.mu.Lock()
		ok, changed := cond(), t.changed
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update changes the tree's state and wakes whoever awaits that.
func (t *Tree) update(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// block waits, counted as blocked, until cond or the end of ctx.
func (t *Tree) block(ctx context.Context, cond func() bool) error {
	t.mu.Lock()
	ok := cond()
	t.mu.Unlock()
	if ok {
		return nil
	}
	t.update(func() { t.blocked++ })
	defer t.update(func() { t.blocked-- })
	return t.await(ctx, cond)
}

// qid returns a number never used before; New needs no lock for it, others hold mu.
func (t *Tree) qid() uint64 {
	t.lastQid++
	return t.lastQid
}

// opened counts a handle, and returns what it is to have.
func (t *Tree) opened() open {
	t.update(func() { t.handles++ })
	return open{t: t}
}

// open is what all handles share: it is counted until it is closed, once.
type open struct {
	fs.MadeUp
	t    *Tree
	done bool
}

func (o *open) Close() error {
	o.t.update(func() {
		if o.done {
			panic("fstest: handle closed twice")
		}
		o.done = true
		o.t.handles--
		o.t.closed++
	})
	return nil
}
