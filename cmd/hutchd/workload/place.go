package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"hutch/fs"
	"hutch/profiles"
)

// A place is whose a sandbox is.
type place struct {
	kind   string // one of the constants
	owner  string // the VM's name, of one of a VM's
	server string
}

// The kinds of places.
const (
	ofVM   = "vm"     // of a server of one VM's profile
	common = "shared" // of one of all VMs whose profile says so
	alone  = "own"    // of a server of servers/
)

// vm returns the name of the sandbox's VM. One that is too long for a VM's ends
// with a hash in the place of the rest.
func (p place) vm() string {
	name := ofServers + p.server
	switch p.kind {
	case ofVM:
		name = ofServers + p.owner + "-" + p.server
	case common:
		name = ofServers + "shared-" + p.server
	}
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxName-9] + "-" + hex.EncodeToString(sum[:4])
}

// ofServers begins the names of all sandboxes of servers.
const ofServers = "server-"

// CheckVM says why people cannot give a VM the name: it may be that of a server's sandbox.
func CheckVM(name string) error {
	if strings.HasPrefix(name, ofServers) {
		return fmt.Errorf("%w: VM name %q: names that begin with %q are those of the sandboxes of MCP servers: choose another", fs.ErrInvalid, name, ofServers)
	}
	return nil
}

// maxName is how long a VM's name can be, in bytes.
const maxName = 64

// profile returns the name of the sandbox's profile, which says whose it is.
func (p place) profile() string {
	return profiles.Provided + strings.Join([]string{p.kind, p.owner, p.server}, ":")
}

// Owner says whose a sandbox is by the name of its VM's profile: servers/NAME, vm/NAME
// or, where several VMs have it, shared. A VM that is no server's has none.
func Owner(profile string) string {
	switch p, _ := placeOf(profile); p.kind {
	case ofVM:
		return "vm/" + p.owner
	case alone:
		return "servers/" + p.server
	case common:
		return common
	}
	return ""
}

// placeOf returns whose a VM is by the name of its profile; ok is false for a VM
// that is no server's.
func placeOf(profile string) (p place, ok bool) {
	text, ok := strings.CutPrefix(profile, profiles.Provided)
	part := strings.Split(text, ":")
	if !ok || len(part) != 3 {
		return place{}, false
	}
	return place{part[0], part[1], part[2]}, true
}
