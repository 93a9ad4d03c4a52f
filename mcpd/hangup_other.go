//go:build !unix

package mcpd

import "net"

// hungUp cannot tell on this system.
func hungUp(net.Conn) (gone, known bool) { return false, false }
