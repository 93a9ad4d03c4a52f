// Package alone serves the MCP servers of a client's configuration file as one
// server, on a pair of pipes: aggd -serve.
//
// A tool is called KEY:TOOL there, after the key of its server in the file. Every
// server is started at once, beside the others, and is tried again when it fails;
// what a server answers, a result or an error, passes byte for byte.
//
// Two processes do it. This one speaks with the client and starts the programs that
// the file names, as their user. Its child, the aggregator (package child), is
// confined: it holds the connections over the network with what they need to log in,
// and reads what servers say.
package alone
