// Package programs has hutchd start the programs that are MCP servers for an
// aggregator, which may start nothing itself: a Host on hutchd's side, a Client
// in the aggregator, and a pair of sockets between them.
//
// The Client asks for a program by a key that the Host gave with the definition
// of its server, and gets the program's standard input and output as descriptors.
// One that listens on a port in its sandbox gives it neither, but as many connections
// to that port as it asks for, a descriptor each, and runs from when it listens.
// Its command, arguments and environment never reach the aggregator. What its
// environment refers to is read when it is started, and kept nowhere. Of what the
// aggregator says nothing is believed but keys that are defined now and its own
// numbers of programs.
package programs

// An order is a line from the aggregator: one of the three.
type order struct {
	Start string `json:"start,omitempty"` // the key of the program to start as ID
	Stop  bool   `json:"stop,omitempty"`  // the program ID is to end
	Dial  uint64 `json:"dial,omitempty"`  // the program to connect to: ID is the connection
	ID    uint64 `json:"id"`
}

// A notice is a line to the aggregator about its program, or connection, ID.
type notice struct {
	ID      uint64 `json:"id"`
	Started bool   `json:"started,omitempty"` // its input and output come with the line
	Listens bool   `json:"listens,omitempty"` // it was started, and can be connected to
	Dialed  bool   `json:"dialed,omitempty"`  // the connection comes with the line
	Refused string `json:"refused,omitempty"` // why there is none
	Ended   string `json:"ended,omitempty"`   // how it ended
	Words   string `json:"words,omitempty"`   // the last that it wrote to its standard error
}

// The longest lines, in bytes.
const (
	maxOrder  = 4 << 10
	maxNotice = 64 << 10
)
