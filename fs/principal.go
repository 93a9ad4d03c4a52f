package fs

// A Principal says who asks for something of a tree. A frontend gives it to the
// node that it begins from, and a walk hands it on: a Call has it, and an open
// file is of who opened it.
type Principal struct {
	UID  uint32 // the user of the process, as the kernel tells; NoUID where it does not
	User string // for whom that asks, as it says itself: worth what UID is, as a door's may be
}

// NoUID is the user of a process of which the kernel tells nothing.
const NoUID = ^uint32(0)

// A Personal is a Node that wants to know who asks.
type Personal interface {
	// For returns the node as who has it.
	For(who Principal) Node
}

// For returns n as who has it.
func For(n Node, who Principal) Node {
	if p, ok := n.(Personal); ok {
		return p.For(who)
	}
	return n
}
