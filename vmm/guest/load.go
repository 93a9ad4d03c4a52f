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

// Load asks the agent. That is no use of the guest.
func (g *Guest) Load(ctx context.Context) (Load, error) {
	var l Load
	text, err := g.text(context.WithValue(ctx, unnoticed{}, true), []string{"load"})
	for line := range strings.Lines(text) {
		fmt.Sscanf(line, "processes %d", &l.Processes)
		fmt.Sscanf(line, "running %d", &l.Running)
	}
	l.Processes, l.Running = max(l.Processes, 0), max(l.Running, 0)
	return l, err
}

// unnoticed marks the context of what is no use of the guest.
type unnoticed struct{}

// use notes that the guest is used.
func (g *Guest) use(ctx context.Context) {
	if ctx.Value(unnoticed{}) == nil {
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
