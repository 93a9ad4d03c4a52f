package vmm

import "time"

// An Event is something that happened to a VM.
type Event struct {
	Time time.Time
	VM   string
	Kind Kind
	Text string // the reason, where there is one
}

// A Kind says what happened, in one word.
type Kind string

// The kinds of events.
const (
	EventMade     Kind = "made"
	EventStarting Kind = "starting"
	EventRunning  Kind = "running"
	EventStopping Kind = "stopping"
	EventStopped  Kind = "stopped"
	EventFailed   Kind = "failed"
	EventAdopted  Kind = "adopted"
	EventRemoved  Kind = "removed"

	EventSuspended Kind = "suspended"
	EventResumed   Kind = "resumed"
	EventPersisted Kind = "persisted" // an anonymous VM got its name; the text is the one it had
	EventForked    Kind = "forked"    // the text is the copy's name, and of a live one what that means

	EventPacked   Kind = "packed"   // the text says what of it
	EventUnpacked Kind = "unpacked" // the text says from what

	EventSnapshot Kind = "snapshot" // the text is its name
	EventReverted Kind = "reverted" // to the snapshot that the text names
	EventDropped  Kind = "dropped"  // a snapshot was
	EventUndone   Kind = "undone"   // the workspace is what it was before the call or command that the text begins with

	EventOOM     Kind = "oom"           // a process of the machine was killed, as there was no memory left
	EventPosed   Kind = "agent.refused" // a connection to the agent's port was, as the agent is there
	EventRefused Kind = "port.refused"  // a connection of the guest was, to a port that is not its maker's
	EventLimit   Kind = "limit"         // the VM came up against another of its limits
)
