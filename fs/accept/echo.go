package accept

import (
	"context"
	"io"
	"net"
	"sync"
)

const echoBuffer = 64 << 10 // of each connection

// Echo sends back what comes in on each connection of l, and ends what it sends
// when nothing more comes: what carries connections is measured with it. It returns
// as Serve does, when all connections have ended, which the end of ctx does.
func Echo(ctx context.Context, l Listener) error {
	var work sync.WaitGroup
	defer work.Wait()
	return Serve(ctx, l, func(c net.Conn) {
		work.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, echoBuffer))
		})
	}, nil)
}
