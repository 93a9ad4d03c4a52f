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
// A plain request is parsed, decided by its host, and written anew, so that the
// proxy and the server cannot understand it differently; every request of a
// connection is decided by itself. A tunnel must carry TLS, and the server name in
// the TLS client's hello must be the host of the tunnel. Names are resolved here, by
// the host's resolver, and the address is checked when it is dialled.
package proxy
