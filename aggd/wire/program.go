package wire

// A Program is what a stdio server is, to the host that starts it. The aggregator
// is never told it.
type Program struct {
	Command  string
	Args     []string
	Env      map[string]string
	Dir      string
	Confined bool   // it is one of ours that reaches the network: it gets no environment
	RunAs    string `json:",omitempty"` // the user of the host that it is; "": the one that starts it
	// Sandbox says in what sandbox it runs, as the host's Starter reads it; "": on
	// the host.
	Sandbox string `json:",omitempty"`
	// Port is where in its sandbox it listens, as a server that is asked over HTTP
	// does; 0: it is asked on its standard input.
	Port int `json:",omitempty"`
}
