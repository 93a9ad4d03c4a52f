// Package hostmcp is the host MCP server: tools for AI agents on the host that
// make sandboxes and use them, and the tree's files as resources. It is a
// client of hutchd's tree and can do nothing that plain file I/O on that could
// not.
package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sync/semaphore"

	"hutch/fs"
)

// A Config says which hutchd is served, and to whom.
type Config struct {
	Address string   // of hutchd
	Program string   // hutchd, which is started if none serves there
	Args    []string // of it, beside the address
	Prefix  string   // of the tools' names
	Version string
	Log     io.Writer
}

// A host is a server with its one client.
type host struct {
	service *service
	version string
	room    *semaphore.Weighted // bytes that the results of calls under way may have

	wholeLimit time.Duration // in the place of wholeLimit, for tests; 0: none

	mu    sync.Mutex       // guards what follows
	vms   map[string]*tree // the anonymous VMs that we made, with what holds them
	execs []heldExec       // commands with more output than was told, the oldest first
}

// A heldExec is a command that has ended and can be read on.
type heldExec struct {
	vm, name string
	t        *tree
}

// maxHeldExecs is how many commands are kept for the rest of their output.
const maxHeldExecs = 16

const instructions = `Sandboxes (VMs) of hutch on this machine. Make one with create, run commands in it with exec, read and write its files below /workspace with read_file and write_file; run does one command in a sandbox of its own. A sandbox without a name goes when it is stopped or this session ends; persist gives it a name. timeline, inspect and the logs tell what an agent inside did and what was refused; asks lists what waits for a decision. Every file of the tree that ends is a resource, hutch:///PATH: begin with hutch:///README.`

// errEnding is why calls end that are under way when ctx of Serve does.
var errEnding = fmt.Errorf("%w: hutch mcp ends", fs.ErrInterrupted)

// Serve is an MCP server on in and out until in ends, or ctx. What it made
// without a name goes with it; a hutchd that it started stays.
func Serve(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	h := &host{service: newService(c), version: c.Version, room: semaphore.NewWeighted(maxResults), vms: map[string]*tree{}}
	defer h.close()
	s := h.server(c.Prefix)
	parent := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	defer context.AfterFunc(parent, func() { cancel(errEnding) })()
	var beginning sync.WaitGroup
	defer beginning.Wait()
	defer cancel(nil)
	beginning.Go(func() { h.begin(ctx, c.Log) })
	err := newSession(h, s, out).serve(ctx, in, closed(in), closed(out))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// server returns the server with the table's tools.
func (h *host) server(prefix string) *server.MCPServer {
	s := server.NewMCPServer("hutch", h.version,
		server.WithToolCapabilities(false), server.WithResourceCapabilities(true, false), server.WithInstructions(instructions),
		server.WithRecovery())
	for _, t := range tools() {
		s.AddTool(t.declared(prefix), h.handler(t))
	}
	h.addResources(s)
	return s
}

// begin has a service run before the first call wants it.
func (h *host) begin(ctx context.Context, log io.Writer) {
	t, err := h.service.dial(ctx)
	if err != nil {
		if ctx.Err() == nil {
			io.WriteString(log, "hutch mcp: "+errorText(err)+"\n")
		}
		return
	}
	t.close()
}

// handler returns what the library has call a tool.
func (h *host) handler(t tool) server.ToolHandlerFunc {
	return func(ctx context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := h.call(ctx, t, q)
		if err != nil {
			return mcp.NewToolResultError(errorText(err)), nil
		}
		text, err := pretty(result)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: result}, nil
	}
}

func (h *host) call(ctx context.Context, t tool, q mcp.CallToolRequest) (any, error) {
	given, ok := q.Params.Arguments.(map[string]any)
	if !ok && q.Params.Arguments != nil {
		return nil, fmt.Errorf("%w: %s: the arguments are to be an object", fs.ErrInvalid, t.name)
	}
	args, err := t.arguments(given)
	if err != nil {
		return nil, err
	}
	c := &call{h: h, args: args, progress: progressOf(ctx, q)}
	if !t.alone {
		if c.t, err = h.service.dial(ctx); err != nil {
			return nil, err
		}
		defer func() { c.end() }()
	}
	return t.do(c, ctx)
}

// A call is a tool's call under way.
type call struct {
	h        *host
	t        *tree // nil once it is held beyond the call
	args     arguments
	progress func(done int, text string) // nil: nobody wants to know
}

func (c *call) end() {
	if c.t != nil {
		c.t.close()
	}
}

// maxResults is how many bytes the results of calls under way may have together.
const maxResults = 128 << 20

// take waits for room for a result of so many bytes, which give gives back.
func (c *call) take(ctx context.Context, bytes int) (give func(), err error) {
	if err := c.h.room.Acquire(ctx, int64(bytes)); err != nil {
		return nil, err
	}
	return func() { c.h.room.Release(int64(bytes)) }, nil
}

// hold has what the call has open stay open when it has ended.
func (c *call) hold() *tree {
	t := c.t
	c.t = nil
	t.free()
	return t
}

// holdVM keeps an anonymous VM that the call made.
func (h *host) holdVM(c *call, name string) {
	t := c.hold()
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.vms[name]; old != nil { // of a hutchd before: numbers begin anew
		old.close()
	}
	h.vms[name] = t
}

// releaseVM lets go of an anonymous VM, which ends it if it is still one.
func (h *host) releaseVM(name string) {
	h.mu.Lock()
	t := h.vms[name]
	delete(h.vms, name)
	h.mu.Unlock()
	if t != nil {
		t.close()
	}
}

// holdExec keeps a command that the call ran, and lets go of the oldest.
func (h *host) holdExec(c *call, vm, name string) {
	e := heldExec{vm, name, c.hold()}
	h.mu.Lock()
	h.execs = append(h.execs, e)
	var oldest *tree
	if len(h.execs) > maxHeldExecs {
		oldest, h.execs = h.execs[0].t, slices.Delete(h.execs, 0, 1)
	}
	h.mu.Unlock()
	if oldest != nil {
		oldest.close()
	}
}

// close lets go of all that is held.
func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.vms {
		t.close()
	}
	for _, e := range h.execs {
		e.t.close()
	}
	h.vms, h.execs = map[string]*tree{}, nil
}

// closed returns a channel that is closed when nobody has the other end of a pipe any
// more. Of what is no file it stays open.
func closed(end any) <-chan struct{} {
	gone := make(chan struct{})
	if f, ok := end.(*os.File); ok {
		go func() {
			awaitHangup(int(f.Fd()))
			close(gone)
		}()
	}
	return gone
}
