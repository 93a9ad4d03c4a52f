package guest

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Load is what the guest says it is busy with.
type Load struct {
	Processes int // and threads
	Running   int // commands
}

// Load asks the agent. That is no use of the guest, and the answer may take as
// long as the guest is busy: it ends no connection.
func (g *Guest) Load(ctx context.Context) (Load, error) {
	ctx = context.WithValue(ctx, unnoticed{}, true)
	var l Load
	n, err := g.connected(ctx)
	if err != nil {
		return l, err
	}
	text, err := n.load(ctx)
	for line := range strings.Lines(text) {
		fmt.Sscanf(line, "processes %d", &l.Processes)
		fmt.Sscanf(line, "running %d", &l.Running)
	}
	l.Processes, l.Running = max(l.Processes, 0), max(l.Running, 0)
	return l, err
}

// load reads the file load. A fid that ctx ends the making of is not used
// again.
func (n *conn) load(ctx context.Context) (string, error) {
	fid := n.newFid()
	if err := n.step(ctx, rootFid, fid, []string{"load"}); err != nil {
		return "", err
	}
	defer n.clunk(fid)
	if _, err := n.call(ctx, tlopen, func(b []byte) []byte { return put32(put32(b, fid), oRdonly) }); err != nil {
		return "", err
	}
	p := make([]byte, 256)
	_, got, err := n.readAt(ctx, n.call, fid, p, 0, 0)
	return string(p[:got]), err
}

// unnoticed marks the context of what is no use of the guest, and has all the
// time that the guest takes. When it ends, the answer is not waited for.
type unnoticed struct{}

func noticed(ctx context.Context) bool { return ctx.Value(unnoticed{}) == nil }

// use notes that the guest is used.
func (g *Guest) use(ctx context.Context) {
	if noticed(ctx) {
		g.used.Store(time.Now().UnixNano())
	}
}

// Used returns when the guest was used last, the zero time if it was not: a
// command, the console or a file of it was asked for, read or written.
func (g *Guest) Used() time.Time {
	if n := g.used.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
