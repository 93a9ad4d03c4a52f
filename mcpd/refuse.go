package mcpd

import (
	"context"
	"io"
	"net"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/fs"
	"hutch/mcpd/frame"
	"hutch/mcpd/seal"
)

const (
	refuseTime = time.Second // for a guest that is refused to ask something
	refuseRead = 64 << 10    // bytes that are read of it
)

// Refuse answers the first request on a connection that is not to be served
// with why, and closes it. It does not take long.
func (e *Endpoint) Refuse(ctx context.Context, conn net.Conn, why error) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(refuseTime))
	in := frame.NewReader(io.LimitReader(conn, refuseRead))
	if _, err := in.Preamble(); err != nil {
		return err
	}
	for {
		f, err := in.Next()
		if err != nil {
			return err
		}
		if seal.Is(f.Payload) {
			e, _ := seal.Parse(f.Payload)
			f.Payload = e.Payload
		}
		m, merr := parse(f.Payload)
		if f.Flags != 0 || merr != nil || m.ID == nil {
			continue
		}
		f.Payload = response(m.ID, nil, failure(jsonrpc.CodeBusy, "%s", fs.Text(why)))
		return frame.NewWriter(conn).WriteFrame(f)
	}
}
