// Package composite runs composite tools: tools made of steps, each of which
// calls another tool, asks the person in front of the client, or calls a tool
// for each item of a list. composite(5) tells how they are written; the format is
// that of compositeTools in ToolHive's vMCP. A Definition is what was written,
// Compile checks it, and the Tool that it returns is run any number of times at
// once. How a tool is called and a person asked is the caller's to say.
package composite

// Server is the name that the ledger and the policy have for the server of composite
// tools.
const Server = "composite"
