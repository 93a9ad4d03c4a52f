package port

import (
	"context"
	"net"
	"time"
)

const (
	firstPause = time.Millisecond
	lastPause  = time.Second
)

// Redial serves one connection after the other until ctx is done; serve
// returns when its connection is lost. Redial dials again at once when one
// was of use, as serve says, and waits longer and longer while none is.
func Redial(ctx context.Context, dial func(context.Context) (net.Conn, error), serve func(net.Conn) (useful bool)) {
	pause := firstPause
	for ctx.Err() == nil {
		if conn, err := dial(ctx); err == nil && serve(conn) {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, lastPause)
	}
}
