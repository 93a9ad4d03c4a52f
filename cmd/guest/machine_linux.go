package main

import (
	"hutch/relay/agent"
	"hutch/relay/boot"
)

// runMachine is the init of a virtual machine, if this process is that. Then it
// does not return: the machine ends with it.
func runMachine() {
	if !boot.Booted() {
		return
	}
	m, err := boot.Up()
	if err != nil {
		boot.Fail(err)
	}
	if err := runAgent(false, agent.Config{Init: true, Keep: m.Spared, Group: m.Group, Machine: m, Programs: boot.Programs}); err != nil {
		boot.Fail(err)
	}
	m.Down()
}
