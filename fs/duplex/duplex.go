// Package duplex makes pairs of connected sockets, and joins two connections into
// one by passing what comes from each to the other.
package duplex

import (
	"context"
	"io"
	"sync"
)

// Join passes bytes both ways, and each end on to the other side, until both
// directions have ended, a connection was lost, or ctx is done. It closes both.
func Join(ctx context.Context, a, b io.ReadWriteCloser) {
	defer a.Close()
	defer b.Close()
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var other sync.WaitGroup
	other.Go(func() { pass(a, b) })
	pass(b, a)
	other.Wait()
}

// pass copies until from ends. A connection that was lost, or that cannot end one
// direction alone, ends both. One whose far side has gone by itself may refuse to
// end, and have something yet to be read.
func pass(to, from io.ReadWriteCloser) {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}
