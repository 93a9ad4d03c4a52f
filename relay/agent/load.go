package agent

import "fmt"

// readLoad tells what the guest is busy with: its processes and threads, and
// how many of the agent's commands run.
func readLoad(c call) (string, error) {
	return fmt.Sprintf("processes %d\nrunning %d\n", c.At.a.reaper.tasks(), c.At.a.runs()), nil
}

// runs returns how many commands run.
func (a *Agent) runs() int {
	n := 0
	for _, name := range a.names() {
		if c := a.command(name); c != nil && c.runs() {
			n++
		}
	}
	return n
}

func (c *command) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == stateStarting || c.state == stateRunning
}
