package guest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// Ctl writes one message to the agent's own ctl.
func (g *Guest) Ctl(ctx context.Context, message string) error {
	err := fs.CheckMessage(message)
	if err == nil {
		err = g.once(ctx, func(ctx context.Context, c *client.Conn) error {
			return tell(ctx, c, client.Quick, []string{"ctl"}, message)
		})
	}
	return g.explain(ctx, err, "err")
}

// tell opens a ctl and writes one message to it.
func tell(ctx context.Context, c *client.Conn, pace client.Pace, path []string, message string) error {
	fid, err := c.Open(ctx, path, os.O_WRONLY)
	if err != nil {
		return err
	}
	defer fid.Clunk()
	return writeMessage(ctx, pace, fid, message)
}

// writeMessage writes one control message.
func writeMessage(ctx context.Context, pace client.Pace, fid *client.Fid, message string) error {
	for p := []byte(message + "\n"); len(p) > 0; {
		want := min(len(p), fid.Conn().Room())
		got, err := fid.WriteAt(ctx, pace, p, 0)
		switch {
		case err != nil:
			return err
		case got != want:
			return fmt.Errorf("%w: guest took %d of %d bytes", fs.ErrIO, got, want)
		}
		p = p[got:]
	}
	return nil
}

// SetEnv changes the environment of every command to come: K=V sets a
// variable, K alone takes it away.
func (g *Guest) SetEnv(ctx context.Context, changes []string) error {
	text := []byte(strings.Join(changes, "\x00") + "\x00")
	err := g.try(ctx, func(ctx context.Context, c *client.Conn) error {
		fid, err := c.Open(ctx, []string{"env"}, os.O_WRONLY|os.O_TRUNC)
		if err != nil {
			return err
		}
		defer fid.Clunk()
		if _, err := fid.Write(ctx, client.Quick, text, 0); err != nil {
			return err
		}
		return fid.Sync(ctx)
	})
	return g.explain(ctx, err, "err")
}

// Shutdown tells the agent to end everything that runs, then itself. It
// returns when the agent has been told.
func (g *Guest) Shutdown(ctx context.Context) error { return g.Ctl(ctx, "shutdown") }

// near is how exact a clock is to be, if that can be had.
const near = 5 * time.Millisecond

// SetClock tells a guest with a clock of its own what time it is. Its clock is
// then late by what that takes to come, so it is told again if it took long.
func (g *Guest) SetClock(ctx context.Context) error {
	for range 3 {
		now := time.Now()
		if err := g.Ctl(ctx, fmt.Sprintf("clock %d", now.UnixNano())); err != nil || time.Since(now) < near {
			return err
		}
	}
	return nil
}

// SetHostname gives a guest with a kernel of its own another host name.
func (g *Guest) SetHostname(ctx context.Context, name string) error {
	return g.Ctl(ctx, "hostname "+fs.Quote(name))
}

// Sync has the guest write to its disk what it keeps in memory.
func (g *Guest) Sync(ctx context.Context) error {
	// Not in the time that once has, which is for what does not take long.
	err := g.once(ctx, func(_ context.Context, c *client.Conn) error {
		return tell(ctx, c, client.Slow, []string{"ctl"}, "sync")
	})
	return g.explain(ctx, err, "err")
}
