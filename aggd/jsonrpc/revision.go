package jsonrpc

import "slices"

// revisions are those of MCP that begin a session with initialize, oldest first.
// From 2026-07-28 on, which is not spoken yet, there is no session: each request
// says its revision itself.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", Newest}

// Newest is the last that begins a session.
const Newest = "2025-11-25"

// Speaks reports whether a session can be of the revision.
func Speaks(revision string) bool { return slices.Contains(revisions, revision) }

// Agree returns the revision that a server answers to a client that offers one.
func Agree(offered string) string {
	if Speaks(offered) {
		return offered
	}
	return Newest
}
