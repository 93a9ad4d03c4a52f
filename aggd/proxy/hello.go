package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

var (
	errSeen   = errors.New("seen")
	errNotTLS = errors.New("not TLS")
)

// clientHello reads the first message of a TLS client and returns the server name
// in it, "" if it has none, and all that was read.
func clientHello(r io.Reader) (server string, read []byte, err error) {
	seen := &recorder{in: r}
	err = tls.Server(seen, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		server = h.ServerName
		return nil, errSeen
	}}).Handshake()
	if errors.Is(err, errSeen) {
		return server, seen.read.Bytes(), nil
	}
	if seen.err != nil {
		return "", seen.read.Bytes(), seen.err
	}
	return "", seen.read.Bytes(), errNotTLS
}

// A recorder is a connection that keeps what is read from in and drops what is
// written.
type recorder struct {
	net.Conn
	in   io.Reader
	read bytes.Buffer
	err  error // of in
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.read.Write(p[:n])
	if err != nil {
		r.err = err
	}
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
