//go:build !linux

package vsock

import (
	"context"
	"errors"
	"net"
)

// DialReserved is for guests, which run Linux.
func DialReserved(context.Context, uint32, uint32) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
