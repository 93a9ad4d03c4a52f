// Package proxy is the way out of a guest whose network is host-proxy: an HTTP
// proxy that the host runs for one VM, as a child of hutchd.
//
//	guest program → loopback → port 5003 → hutchd ─descriptor→ proxy → the network
//
// The bytes of the guest are parsed here and not in hutchd, which hands over each
// connection on a unix socket, the proxy's standard input: lines of JSON, one with
// what the guest may reach, and one with a descriptor for each connection. Every
// request is a line on the standard output when it begins and when it ends.
//
// A plain request is read, decided by its host and made anew, so that nobody
// can make two readers see two things in it; each one on a connection is decided for itself. A
// tunnel must carry TLS, and the server that the TLS asks for must be the one
// that the tunnel is to. Names are resolved here, by the host's resolver, and
// the address is judged when it is dialled.
package proxy
