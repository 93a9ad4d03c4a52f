package profiles

import (
	"encoding/json"
	"strings"

	"hutch/aggd/wire"
)

// A Box is the sandbox that the program of an MCP server runs in.
type Box struct {
	Server  string       `json:"server,omitempty"` // of servers/, in a session of which the program's place is; "": a program
	Image   string       `json:"image,omitempty"`  // of images/, or a reference to one of a registry; "": host
	Net     string       `json:"net,omitempty"`    // NetNone or NetProxy
	Network wire.Network `json:"network"`          // what it may reach, where Net is NetProxy
	Mounts  []Mount      `json:"mounts,omitempty"`
	RAM     int64        `json:"ram,omitempty"`    // that the machine may have, in bytes; 0: what there is
	Disk    int64        `json:"disk,omitempty"`   // that its files may have, likewise
	Shared  bool         `json:"shared,omitempty"` // between all VMs whose profile says the same
	Wrong   string       `json:"wrong,omitempty"`  // why there can be none; "": there can
	Says    Says         `json:"says,omitzero"`    // for what is to be said of it
}

// Says is what a profile says of a Box, as one who adds to it finds it there.
type Says struct {
	Layer       string   `json:"layer,omitempty"`  // whose the server is; "": nobody's profile
	Source      string   `json:"source,omitempty"` // where the server is said
	Read, Allow []string `json:",omitempty"`
}

// IsReference tells whether Image is of a registry: it has one of / : @.
func (b Box) IsReference() bool { return strings.ContainsAny(b.Image, "/:@") }

// Text returns what a wire.Program has of a Box.
func (b Box) Text() string {
	text, _ := json.Marshal(b) // of texts and numbers
	return string(text)
}

// ParseBox returns the Box of a text that Text has made.
func ParseBox(text string) (b Box, err error) { return b, json.Unmarshal([]byte(text), &b) }
