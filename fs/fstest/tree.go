// Package fstest makes a small tree for the tests of the
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
//	store/     a folder of the host, with no word of that: files that can be
//	           made, renamed, removed and truncated
package fstest

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"hutch/fs"
	"hutch/fs/folder"
)

// Status is the text of the file status.
const Status = "running\nimage host\n"

// maxSize is how large a file gets.
const maxSize = 64 << 20

// A Tree is a tree and what a test can see and do behind its back.
type Tree struct {
	store string // the folder behind it
	root  *made
	files uint64 // made-up ones

	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	events   []byte
	ended    bool
	messages []string
	released bool
	big      uint64
	handles  int // open ones
	closed   int
	blocked  int // reads and writes waiting
}

// New returns a tree with no events, whose store is the empty folder dir of the
// host.
func New(dir string) *Tree {
	store, err := folder.Open(dir, "store")
	if err != nil {
		panic(err)
	}
	t := &Tree{store: dir, changed: make(chan struct{}), big: 1 << 20}
	many := map[string]fs.Node{}
	for i := range 100 {
		name := fmt.Sprintf("f%02d", i)
		many[name] = t.text(name, name+"\n")
	}
	below, deep := "leaf", t.text("leaf", "leaf\n")
	for _, name := range []string{"c", "b", "a", "deep"} {
		below, deep = name, t.dir(name, map[string]fs.Node{below: deep})
	}
	big := t.file("big", 0o444, func(int) fs.Handle { return zeros{t: t} })
	big.size = t.size
	t.root = t.dir("/", map[string]fs.Node{
		"status": t.text("status", Status),
		"ctl":    t.file("ctl", 0o644, func(int) fs.Handle { return ctl{t: t} }),
		"events": t.file("events", 0o444, func(flags int) fs.Handle {
			return events{t: t, nonblock: flags&syscall.O_NONBLOCK != 0}
		}),
		"wait":  t.file("wait", 0o666, func(int) fs.Handle { return wait{t: t} }),
		"big":   big,
		"link":  t.link("link", "status"),
		"many":  t.dir("many", many),
		"deep":  deep,
		"store": stored{store.Root(), t},
	})
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

// size returns that of big.
func (t *Tree) size() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.big
}

// Messages returns what was written to ctl so far, a string a write.
func (t *Tree) Messages() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.messages...)
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

// opened counts an open file.
func (t *Tree) opened(h fs.Handle) fs.Handle {
	t.update(func() { t.handles++ })
	return &opened{Handle: h, t: t}
}

// An opened is an open file that is counted until it is closed, once.
type opened struct {
	fs.Handle
	t    *Tree
	done bool
}

func (o *opened) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off > maxSize-int64(len(p)) {
		return 0, fs.ErrNoSpace
	}
	return o.Handle.WriteAt(ctx, p, off)
}

func (o *opened) Close() error {
	o.t.update(func() {
		if o.done {
			panic("fstest: handle closed twice")
		}
		o.done = true
		o.t.handles--
		o.t.closed++
	})
	return o.Handle.Close()
}
