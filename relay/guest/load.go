package guest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hutch/fs/ninep/client"
)

// A Load is what the guest says it is busy with.
type Load struct {
	Processes int // and threads
	Running   int // commands
}

// Load asks the agent. That is no use of the guest, and the answer may take as
// long as the guest is busy: it ends no connection.
func (g *Guest) Load(ctx context.Context) (Load, error) {
	var l Load
	c, err := g.connected(ctx)
	if err != nil {
		return l, err
	}
	text, err := c.Text(ctx, client.Idle, []string{"load"})
	for line := range strings.Lines(text) {
		fmt.Sscanf(line, "processes %d", &l.Processes)
		fmt.Sscanf(line, "running %d", &l.Running)
	}
	l.Processes, l.Running = max(l.Processes, 0), max(l.Running, 0)
	return l, err
}

// use notes that the guest is used.
func (g *Guest) use() { g.used.Store(time.Now().UnixNano()) }

// Used returns when the guest was used last, the zero time if it was not: a
// command, the console or a file of it was asked for, read or written.
func (g *Guest) Used() time.Time {
	if n := g.used.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
