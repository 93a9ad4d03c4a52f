package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A Call is a call of a tool whose arguments were read. Nothing has been done.
type Call struct {
	w    *Workspace
	tool *tool
	task

	// Admits says whether what a search finds below the call's path may be
	// looked into: a folder, or a file that fs.grep reads. Nil: all may.
	Admits func(path string) bool

	Trace string // the id of the trace that it is part of; "": nobody says
}

// Plan reads the arguments of a call. What is wrong with them is told by the
// Call's result, if it is run.
func (w *Workspace) Plan(name string, args json.RawMessage) *Call {
	t := w.find(name)
	if t == nil {
		return &Call{task: task{err: fmt.Errorf("no tool %q", name)}}
	}
	return &Call{w: w, tool: t, task: t.take(args)}
}

// An Operation is what a call does to a file.
type Operation struct {
	Name  string // read, write, create …
	Path  string // of the file that it is done to, below the guest's folder of the workspace
	Bytes int64  // that it writes
}

// Operation returns what the call does to a file, as the links of its path are
// now. It is not ok where the call is about no file, or cannot be done.
func (c *Call) Operation() (op Operation, ok bool) {
	name := c.path
	if far := c.tool != nil && c.tool.stored && c.w.store.Load() != nil; c.err == nil && c.tool.operation != "" && !far {
		name, c.err = c.w.resolve(name, !c.tool.itself)
	}
	switch t := c.leadsOut(); {
	case t != nil && t.link != "":
		return Operation{Name: c.tool.operation, Path: guestName(t.path)}, false
	case t != nil:
		return Operation{Name: c.tool.operation, Path: t.path}, false
	case c.err != nil || c.tool.operation == "":
		return op, false
	}
	return Operation{c.tool.operation, guestName(name), c.put}, true
}

// Changes says whether the call may change the workspace.
func (c *Call) Changes() bool {
	return c.err == nil && c.tool != nil && c.tool.changes && !(c.tool.stored && c.w.store.Load() != nil)
}

func (c *Call) admits(name string) bool { return c.Admits == nil || c.Admits(guestName(name)) }

// Traversal is why the call of a tool fs.* has to be refused before anything else:
// its path could lead out of the workspace or, once Operation has looked, its
// links do. It is nil where that is not so, and of other tools, which fail then, as
// they do of a path that is plainly outside.
func (c *Call) Traversal() *Traversal {
	if t := c.leadsOut(); t != nil && t.outside == "" && c.tool != nil && c.tool.stored {
		return t
	}
	return nil
}

func (c *Call) leadsOut() *Traversal {
	t, _ := errors.AsType[*Traversal](c.err)
	return t
}

// A Done is what is known of a call that was run.
type Done struct {
	Bytes int64 // of files, that were read or written
	Err   error // why it came to nothing
}

// Refused is why the workspace did not let the call have what it asks for; nil where it
// did, whatever came of it.
func (d *Done) Refused() *Traversal {
	t, _ := errors.AsType[*Traversal](d.Err)
	return t
}

// Run does what the call says, and returns its tools/call result.
func (c *Call) Run(ctx context.Context) (json.RawMessage, Done) {
	r, err := c.run(ctx)
	if err != nil {
		if c.tool != nil {
			err = fmt.Errorf("%s: %w", c.tool.name, err)
		}
		return refusal(err), Done{Err: err}
	}
	return r.encode(), Done{Bytes: r.bytes}
}

// farTime is how long a call may take that asks a server, many times perhaps.
const farTime = time.Minute

var errFar = fmt.Errorf("the storage took longer than %v", farTime)

func (c *Call) run(ctx context.Context) (*result, error) {
	if c.err != nil {
		return nil, c.err
	}
	w, room := c.w, c.tool.room
	store := w.store.Load()
	if store != nil && c.tool.stored {
		room = far
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, farTime, errFar)
		defer cancel()
	}
	select {
	case w.rooms[room] <- struct{}{}:
		defer func() { <-w.rooms[room] }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if room == far {
		return c.do(ctx, place{store: *store, snaps: w.snaps, trace: c.Trace, admits: c.admits})
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", bare(err))
	}
	defer root.Close()
	return c.do(ctx, place{root, &local{root}, w.snaps, c.Trace, c.admits})
}
