package fuse

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// idleSignals are those that do nothing to a program that has not asked for
// them: nobody gives up what the program waits for by one of these.
const idleSignals = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGCONT-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1)

// idle says whether the client of a request was interrupted by idle signals
// only. It has them still: a signal is delivered when the call is answered.
func idle(client context.Context) bool {
	caller, ok := gofuse.FromContext(client)
	if !ok || caller.Pid == 0 { // a thread that this process cannot see
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", caller.Pid))
	return err == nil && pendingSignals(string(status))&^idleSignals == 0
}

// pendingSignals returns the signals, one a bit, that wait for a thread with
// that status and are not blocked; all of them if it says nothing of them.
func pendingSignals(status string) uint64 {
	sets := map[string]uint64{}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		if set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err == nil {
			sets[key] = set
		}
	}
	own, ok := sets["SigPnd"]
	if !ok {
		return ^uint64(0)
	}
	return (own | sets["ShdPnd"]) &^ sets["SigBlk"]
}
