package alone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hutch/aggd/child"
	"hutch/aggd/wire"
	"hutch/fs"
)

// Config says what is served, and how.
type Config struct {
	Servers    []Server
	Aggregator string // the program of package child
	Separator  string // between a key and a server's own name; ":" where empty

	Safe bool // tools have names that every client takes

	// All serves resources, prompts, completions and log messages too, and tells the
	// client of changes; else there are tools, as the reference has it.
	All bool

	ListWait time.Duration // how long a list waits for servers that start; 15 s, 5 s with All
	Limits   wire.Limits
	Log      io.Writer
}

// The times of servers. A call may take as long as the client likes, who can give it
// up; npx fetches what it is to run the first time.
const (
	connectTime = wire.Duration(2 * time.Minute)
	callTime    = wire.Duration(24 * time.Hour)
	healthTime  = wire.Duration(30 * time.Second) // of servers over HTTP
)

// The times of the end, which are less than 2 s together: for requests under way,
// and for a program after SIGTERM, which comes 500 ms after the end of its input.
const (
	endWait = 300 * time.Millisecond
	grace   = 750 * time.Millisecond
)

// Without list_changed, what is late for the first list is never seen by most clients.
const (
	listWait    = 15 * time.Second
	listWaitAll = 5 * time.Second
)

// CheckSeparator says why names may not have a separator.
func CheckSeparator(s string) error {
	switch {
	case s == "":
		return errors.New("the separator is empty: write some characters")
	case !utf8.ValidString(s), strings.ContainsFunc(s, unicode.IsSpace), strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("the separator %q has space in it, or what is no character", s)
	case len(s) > maxSeparator:
		return fmt.Errorf("the separator is longer than %d bytes", maxSeparator)
	}
	return nil
}

const maxSeparator = 16

// Serve serves one client that writes to in and reads out, until in ends or ctx
// does. It closes out, and nothing of any server is left when it returns; a Read of
// in that goes on when ctx ends does not hold it up.
func Serve(ctx context.Context, cfg Config, in io.Reader, out io.WriteCloser) error {
	cfg.Separator = cmp.Or(cfg.Separator, ":")
	if err := CheckSeparator(cfg.Separator); err != nil {
		return err
	}
	if cfg.ListWait <= 0 {
		cfg.ListWait = listWait
		if cfg.All {
			cfg.ListWait = listWaitAll
		}
	}
	ctx, lost := context.WithCancel(ctx)
	defer lost()
	f := newFace(cfg, out, lost)
	c, err := child.Start(context.WithoutCancel(ctx), child.Config{
		Path: cfg.Aggregator, Servers: f.defined(), Limits: cfg.Limits, Log: cfg.Log,
		ListWait: cfg.ListWait, Grace: grace,
		Notify: f.notified, Request: refuse, Up: f.started,
		Down: func(err error) { fmt.Fprintf(cfg.Log, "aggd: %s\n", fs.Text(err)) },
	})
	if err != nil {
		return err
	}
	f.child = c
	read := make(chan error, 1)
	go func() { read <- f.read(wire.NewReader(in, int(cfg.Limits.WithDefaults().MaxRequest)+maxEnvelope)) }()
	select {
	case err = <-read:
		f.finish(ctx)
	case <-ctx.Done():
		f.close()
	}
	c.Close()
	return err
}

// finish waits a little for the requests under way, and closes the face.
func (f *face) finish(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		f.requests.Wait()
		close(done)
	}()
	limit, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	select {
	case <-done:
	case <-limit.Done():
	}
	f.close()
	<-done
}

// close gives up the requests under way, and ends what waits for the client to read.
func (f *face) close() {
	f.mu.Lock()
	f.cancel(errClosed)
	f.mu.Unlock()
	f.out.Close()
	f.requests.Wait()
}
