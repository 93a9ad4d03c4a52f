package ports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"hutch/fs/fuse"
	"hutch/relay/boot"
	"hutch/relay/guest"
	"hutch/relay/port"
)

// kept is how long what a read-only folder has is taken to be the same, unless
// it is live.
const kept = time.Hour

func options(s boot.Share) fuse.Options {
	o := fuse.Options{Name: s.Name, AllowOther: true, Stored: true, Log: log.New(os.Stderr, "hutch: "+s.Path+": ", 0)}
	o.ReadOnly = s.ReadOnly
	if s.ReadOnly && !s.Live {
		o.Keep = kept
	}
	return o
}

// attach gives host one connection after the other.
func attach(ctx context.Context, host *guest.Guest) {
	dial := func(ctx context.Context) (net.Conn, error) { return port.Dial(ctx, port.Share) }
	port.Redial(ctx, dial, func(c net.Conn) bool {
		w := &watched{Conn: c, closed: make(chan struct{})}
		host.Attach(w)
		select {
		case <-w.closed:
		case <-ctx.Done():
		}
		return true
	})
}

// A watched connection tells when its user has closed it, which is when it
// was lost.
type watched struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (w *watched) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// Main is the program of the helper process: it mounts the shares that text
// says, tells the init, and goes on until it is killed.
func Main(ctx context.Context, text string) error {
	var shares []boot.Share
	if err := json.Unmarshal([]byte(text), &shares); err != nil {
		return fmt.Errorf("shares: %w", err)
	}
	init := os.NewFile(boot.ReadyFD, "init")
	if init == nil {
		return errors.New("not started by an init")
	}
	defer init.Close()
	os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) // without it nothing is there
	return Run(ctx, shares, func() { fmt.Fprint(init, boot.Ready) })
}
