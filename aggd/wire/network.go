package wire

import "time"

// A Network says what a guest may reach through its proxy. Patterns are those of
// guard.ParsePattern; without a port they mean 80 and 443, in Block every port.
type Network struct {
	Profile  string   `json:"profile"` // whose it is, for the texts of refusals
	Allow    []string `json:"allow"`
	Block    []string `json:"block"`   // goes before Allow
	Private  []string `json:"private"` // hosts, addresses and CIDRs that may be reached though they are not public
	MaxBytes int64    `json:"max_bytes"`
	Timeout  Duration `json:"timeout"`
}

// A ProxyLine is a line from hutchd to the proxy: what the guest may reach from
// now on, or that the descriptor which comes with the line is one of its connections.
type ProxyLine struct {
	Network *Network `json:"network,omitempty"`
	Conn    bool     `json:"conn,omitempty"`
}

// What was decided of a request to the proxy.
const (
	Allowed = "allowed"
	Denied  = "denied"
	Errored = "error" // allowed, but it could not be done
)

// A NetEvent is a line from the proxy: a request that has begun and, later, the
// same again when it has ended. What is refused at once has the second only.
type NetEvent struct {
	ID       uint64    `json:"id"`
	Ended    bool      `json:"ended"`
	Time     time.Time `json:"time"` // when it began
	Host     string    `json:"host"`
	Port     uint16    `json:"port"`
	Method   string    `json:"method"`
	Path     string    `json:"path"` // "" for a tunnel
	Decision string    `json:"decision"`
	Rule     string    `json:"rule"`
	Reason   string    `json:"reason"`
	Status   int       `json:"status"`
	Sent     int64     `json:"sent"` // bytes from the guest, without the heads of messages
	Received int64     `json:"received"`
	Duration float64   `json:"duration"` // milliseconds
	Process  string    `json:"process"`  // in the guest, as the guest says
}
