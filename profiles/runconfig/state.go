package runconfig

import (
	"fmt"
	"slices"
	"strings"

	"hutch/fs"
)

// A State is what a server is doing, in ToolHive's words for it.
//
//	starting → running ⇄ unhealthy, degraded  removing → gone
//	    ↓        ↓    ⇄ auth_retrying → unauthenticated
//	  error   stopping → stopped → starting
//
// Transitions is the whole of it.
type State string

// The states.
const (
	Gone            State = "" // before it is made and when it is removed
	Starting        State = "starting"
	Running         State = "running"
	Unhealthy       State = "unhealthy"       // it runs and does not answer
	Degraded        State = "degraded"        // it runs and does not give one of its lists; ours
	AuthRetrying    State = "auth_retrying"   // its token could not be renewed, and is tried again
	Unauthenticated State = "unauthenticated" // a remote server takes no token that there is
	Stopping        State = "stopping"
	Stopped         State = "stopped"
	PolicyStopped   State = "policy_stopped" // corp or a profile does not let it run
	Error           State = "error"          // it could not be started or stopped
	Removing        State = "removing"
	Unknown         State = "unknown" // it was there before hutchd, which has not found out yet
)

// States are all of them but Gone.
var States = []State{Starting, Running, Unhealthy, Degraded, AuthRetrying, Unauthenticated, Stopping, Stopped, PolicyStopped, Error, Removing, Unknown}

// An Event is what has a server change its state. Its text is what is said of a
// server to which it cannot happen.
type Event string

// The events.
const (
	Start      Event = "be started"
	Stop       Event = "be stopped"
	Remove     Event = "be removed"
	Done       Event = "have done" // it is started, stopped, or removed
	Fail       Event = "fail"      // to start, to stop or to be removed
	Exit       Event = "end"       // by itself
	Sick       Event = "be found ill"
	Lack       Event = "be found without a list"
	Well       Event = "be found well" // it answers, or its token was renewed
	Refuse     Event = "be refused"    // its token, for good
	RetryToken Event = "wait for a token"
	Forbid     Event = "be forbidden" // by policy
)

// A Transition is a row of the table of them.
type Transition struct {
	From State
	On   Event
	To   State
	Ours bool // ToolHive's documents do not draw it
}

// Transitions are all that there are. Those that are ours are of three kinds: what
// the documents draw for running holds for whatever else runs; whatever does not
// run can be started and removed; and what only its own texts tell of, policy_stopped,
// unknown, and that it can fail to stop or to be removed.
var Transitions = []Transition{
	{Gone, Start, Starting, false},

	{Starting, Done, Running, false},
	{Starting, Fail, Error, false},
	{Starting, Stop, Stopping, true},
	{Starting, Exit, Error, true},
	{Starting, Refuse, Unauthenticated, true},
	{Starting, Forbid, PolicyStopped, true},

	{Running, Stop, Stopping, false},
	{Running, Sick, Unhealthy, false},
	{Running, Refuse, Unauthenticated, false},
	{Running, RetryToken, AuthRetrying, false},
	{Running, Exit, Stopped, false},
	{Running, Forbid, PolicyStopped, true},

	{Running, Lack, Degraded, true},
	{Unhealthy, Lack, Degraded, true},

	{Degraded, Well, Running, true},
	{Degraded, Sick, Unhealthy, true},
	{Degraded, Stop, Stopping, true},
	{Degraded, Exit, Stopped, true},
	{Degraded, Refuse, Unauthenticated, true},
	{Degraded, RetryToken, AuthRetrying, true},
	{Degraded, Forbid, PolicyStopped, true},

	{Unhealthy, Well, Running, true},
	{Unhealthy, Stop, Stopping, true},
	{Unhealthy, Exit, Stopped, true},
	{Unhealthy, Refuse, Unauthenticated, true},
	{Unhealthy, RetryToken, AuthRetrying, true},
	{Unhealthy, Forbid, PolicyStopped, true},

	{AuthRetrying, Well, Running, false},
	{AuthRetrying, Refuse, Unauthenticated, false},
	{AuthRetrying, Stop, Stopping, true},
	{AuthRetrying, Exit, Stopped, true},
	{AuthRetrying, Forbid, PolicyStopped, true},

	{Unauthenticated, Start, Starting, false},
	{Unauthenticated, Remove, Removing, false},
	{Unauthenticated, Stop, Stopping, true},
	{Unauthenticated, Forbid, PolicyStopped, true},

	{Stopping, Done, Stopped, false},
	{Stopping, Fail, Error, true},

	{Stopped, Start, Starting, false},
	{Stopped, Remove, Removing, false},
	{Stopped, Forbid, PolicyStopped, true},

	{PolicyStopped, Start, Starting, true},
	{PolicyStopped, Remove, Removing, true},

	{Error, Start, Starting, false},
	{Error, Remove, Removing, false},

	{Removing, Done, Gone, false},
	{Removing, Fail, Error, true},

	{Unknown, Done, Running, true},
	{Unknown, Exit, Stopped, true},
	{Unknown, Fail, Error, true},
	{Unknown, Stop, Stopping, true},
	{Unknown, Remove, Removing, true},
}

// Next returns the state that e brings a server to. Its error is of the kind
// fs.ErrBusy and says what can be done instead.
func (s State) Next(e Event) (State, error) {
	i := slices.IndexFunc(Transitions, func(t Transition) bool { return t.From == s && t.On == e })
	if i >= 0 {
		return Transitions[i].To, nil
	}
	var can []string
	for _, t := range Transitions {
		if t.From == s && slices.Contains([]Event{Start, Stop, Remove}, t.On) {
			can = append(can, string(t.On))
		}
	}
	text := "wait until it is something else"
	if len(can) > 0 {
		text = "it can " + strings.Join(can, " or ")
	}
	name := string(s)
	if s == Gone {
		name = "not there"
	}
	return s, fmt.Errorf("%w: a server that is %s cannot %s: %s", fs.ErrBusy, name, e, text)
}

// Live tells whether a server of that state runs, well or not.
func (s State) Live() bool {
	return slices.Contains([]State{Running, Unhealthy, Degraded, AuthRetrying}, s)
}
