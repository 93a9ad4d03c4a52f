package agent

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"hutch/fs"
)

// loopback are the guest's own addresses, in the order in which they are tried:
// many a server listens on one of them only.
var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// parseAddress returns the places that an address means: PORT, of the guest
// itself, ADDR!PORT, or localhost!PORT.
func parseAddress(text string) ([]netip.AddrPort, error) {
	host, service := "localhost", text
	if i := strings.LastIndexByte(text, '!'); i >= 0 {
		host, service = text[:i], text[i+1:]
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 || service[0] == '+' {
		return nil, fmt.Errorf("%w: address %q: want ADDR!PORT or PORT, a port from 1 to 65535", fs.ErrInvalid, text)
	}
	addrs := loopback
	if host != "localhost" {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return nil, fmt.Errorf("%w: address %q: want ADDR!PORT or PORT, an IP address or localhost", fs.ErrInvalid, text)
		}
		addrs = []netip.Addr{addr}
	}
	var places []netip.AddrPort
	for _, a := range addrs {
		places = append(places, netip.AddrPortFrom(a, uint16(port)))
	}
	return places, nil
}

// showAddress returns an address as parseAddress takes it.
func showAddress(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return "-"
	}
	p := tcp.AddrPort()
	return fmt.Sprintf("%s!%d", p.Addr().Unmap(), p.Port())
}
