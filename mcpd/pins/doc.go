// Package pins remembers what was approved of the tools of MCP servers, and
// holds back those that are not so any more: a server can be trusted for what it
// says on the first day, and say something else to the model on the next.
//
// What was approved of a tool is all that its server says of it but its name,
// its icons and its _meta: what a model may read and what a call needs. The
// first list of a server is approved as it comes, and so are tools that come
// later, unless the server is strict. A tool that went and comes back is held
// against what it was when it went.
//
// A Store keeps a file for each server, of lines of JSON. A file that cannot be
// read approves nothing: every tool of its server is held back until a person
// approves what there is.
//
// Nothing that a server does makes a file larger than some MiB: of definitions
// that are too long only the digest is kept, and tools that are too many are
// held back. To approve a server drops what it does not offer any more.
package pins
