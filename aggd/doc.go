// Package aggd joins many MCP servers into one for a host that speaks lines of
// JSON with it (package wire). It alone holds the network and the servers'
// credentials; it decides nothing about what may be called but what its
// definitions say.
//
// What passes between host and servers passes as bytes. Only the envelope is
// read, and only what must differ is put in place of what was there: the id of a
// request, its progress token, a name or a URI without its server.
//
// The parts, from the host's side to the servers': an aggregator answers the
// host's lines; a server is one definition; an upstream is one connection slot
// of a server, for one set of client capabilities, which connects, lists, retries
// and idles; a conn is one live session, with the requests under way in it; a
// transport carries its messages. An upstream owns its conn by one goroutine, and
// no lock is held while a message is written.
package aggd
