//go:build !linux

package agent

// tasks returns 0: nobody tells.
func tasks() int { return 0 }

func keepRoom() {}
