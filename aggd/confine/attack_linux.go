//go:build takeover

package confine

import "hutch/aggd/confine/takeover"

// attack is what somebody does who has taken over the process, in programs built
// for the test of that.
func attack() { takeover.Run() }
