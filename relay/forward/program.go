package forward

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// preamble is the line that names a program to the host.
func preamble(name string) []byte {
	name = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.IsSpace(c) || c > unicode.MaxASCII {
			return '_'
		}
		return c
	}, name)
	return []byte("\x00CAPSEM_META:" + name + "\n")
}

// program returns the name of the program that has the other end of c, or
// unknown.
func program(c net.Conn) string {
	peer, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return "unknown"
	}
	here, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return "unknown"
	}
	socket := socketOf(peer, here)
	if socket == "" {
		return "unknown"
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == socket {
			dir := filepath.Dir(filepath.Dir(link))
			if name, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
				return strings.TrimSpace(string(name))
			}
		}
	}
	return "unknown"
}

// socketOf returns what a descriptor of the socket of a that is connected with
// b is a link to. The port of a alone may be that of others, too.
func socketOf(a, b *net.TCPAddr) string {
	port, to := fmt.Sprintf(":%04X", a.Port), fmt.Sprintf(":%04X", b.Port)
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line) // number local remote state queues timer retransmits uid timeout inode
			if len(f) > 9 && strings.HasSuffix(f[1], port) && strings.HasSuffix(f[2], to) && f[9] != "0" {
				return "socket:[" + f[9] + "]"
			}
		}
	}
	return ""
}
