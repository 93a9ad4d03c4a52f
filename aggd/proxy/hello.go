package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

var (
	errSeen   = errors.New("seen")
	errNotTLS = errors.New("not TLS")
)

// clientHello reads the first message of a TLS client and returns the server
// that it asks for, "" if it asks for none, and all that it has read.
func clientHello(r io.Reader) (server string, read []byte, err error) {
	seen := &hearer{in: r}
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

// A hearer is a connection that keeps what was read and never answers.
type hearer struct {
	in   io.Reader
	read bytes.Buffer
	err  error // of in
}

func (h *hearer) Read(p []byte) (int, error) {
	n, err := h.in.Read(p)
	h.read.Write(p[:n])
	if err != nil {
		h.err = err
	}
	return n, err
}

func (h *hearer) Write(p []byte) (int, error)      { return len(p), nil }
func (h *hearer) Close() error                     { return nil }
func (h *hearer) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (h *hearer) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (h *hearer) SetDeadline(time.Time) error      { return nil }
func (h *hearer) SetReadDeadline(time.Time) error  { return nil }
func (h *hearer) SetWriteDeadline(time.Time) error { return nil }
