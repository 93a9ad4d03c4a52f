// Package runconfig reads and writes RunConfig v0.1.0, the JSON file by which
// ToolHive exports and imports an MCP server that it runs, and has what it means
// to hutch: a Server, the Source that it comes from, and the State that it is in.
// server(5) tells of them. The format is that of pkg/runner/config.go of ToolHive.
//
// A Config keeps the text that it was read from. What hutch has no use for stays
// there as it came, and Unused tells of it. Nothing here starts or reaches anything.
package runconfig
