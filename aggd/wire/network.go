package wire

import "time"

// A Network says what a guest may reach through its proxy. Patterns are those of
// guard.ParsePattern; without a port they mean 80 and 443, in Block every port.
type Network struct {
	Profile  string   `json:"profile"`          // whose it is, for the texts of refusals
	Advice   string   `json:"advice,omitempty"` // what a refusal has to do, where that is not to change the profile
	Allow    []string `json:"allow"`
	Block    []string `json:"block"`   // goes before Allow
	Private  []string `json:"private"` // hosts, addresses and CIDRs that may be reached though they are not public
	MaxBytes int64    `json:"max_bytes"`
	Timeout  Duration `json:"timeout"`

	// Decide is how long hutchd may take to decide a request that the patterns
	// allow; 0: it is not asked.
	Decide Duration `json:"decide,omitempty"`
}

// A ProxyLine is a line from hutchd to the proxy: what the guest may reach from
// now on, that the descriptor which comes with the line is one of its connections,
// or what was decided of a request that the proxy has asked about.
type ProxyLine struct {
	Network *Network   `json:"network,omitempty"`
	Conn    bool       `json:"conn,omitempty"`
	Answer  *NetAnswer `json:"answer,omitempty"`
}

// A NetAnswer is what hutchd decided of a request to the proxy.
type NetAnswer struct {
	ID      uint64 `json:"id"` // of the NetEvent that asked
	Allowed bool   `json:"allowed"`
	Rule    string `json:"rule"` // "": none says so, but the patterns alone
	Reason  string `json:"reason"`
}

// What was decided of a request to the proxy.
const (
	Allowed = "allowed"
	Denied  = "denied"
	Errored = "error" // allowed, but it could not be done
)

// A NetEvent is a line from the proxy: a request that has begun and, later, the
// same again when it has ended. What is refused at once has the second only. If
// hutchd is to decide the request, the line that asks goes before both.
type NetEvent struct {
	ID       uint64    `json:"id"`
	Asks     bool      `json:"asks,omitempty"`
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
	Trace    string    `json:"trace"`    // the id of the trace that it is part of
}
