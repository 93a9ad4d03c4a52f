package vmm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hutch/fs"
	"hutch/vmm/cgroup"
	"hutch/vmm/replica"
)

// A State is what a VM is in, in one word.
//
//	                 ┌──────────── start ───────────┐
//	                 v                              │
//	created ──> starting ──> running ──> stopping ──> stopped
//	                 │          │
//	                 └──────────┴──> failed, with the reason; starts again like stopped
//
//	running ──suspend──> suspended ──resume──> starting ──> running
//	                         └──────── stop or kill ──────> stopped
type State string

// The states of a VM.
const (
	Created  State = "created"
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
	Stopped  State = "stopped"
	Failed   State = "failed"

	Suspended State = "suspended" // its machine has ended; what that was is on the disk
)

// alive says whether a VM in state s may have a machine.
func (s State) alive() bool { return s == Starting || s == Running || s == Stopping }

// stored is what the file state says.
type stored struct {
	Name      string          `json:"name,omitempty"`
	State     State           `json:"state"`
	Reason    string          `json:"reason,omitempty"` // why it is stopped or failed
	Since     time.Time       `json:"since"`
	Made      time.Time       `json:"made"`
	Anonymous bool            `json:"anonymous,omitempty"`
	Driver    string          `json:"driver,omitempty"`  // that runs the machine
	Image     string          `json:"image,omitempty"`   // that the machine has
	Machine   json.RawMessage `json:"machine,omitempty"` // the driver's
	// Programs are what the machine began with, also that of a suspended VM, as
	// MachinePrograms says.
	Programs map[string]string `json:"programs,omitempty"`
	Group    cgroup.Group      `json:"group,omitempty"` // that the machine's processes are in
	Told     cgroup.Events     `json:"told,omitzero"`   // of what that counted, what was told
	Began    time.Time         `json:"began,omitzero"`  // when it was started last
	Used     time.Time         `json:"used,omitzero"`   // and used
	Ran      time.Duration     `json:"ran,omitempty"`   // how long it had run when it was suspended
	Saved    int64             `json:"saved,omitempty"` // bytes of a suspended VM's memory and state

	// Unconfirmed are the keys of the config that came with an archive and that nobody
	// here has agreed to.
	Unconfirmed []string `json:"unconfirmed,omitempty"`

	Unfinished bool `json:"unfinished,omitempty"` // a live fork that has not come to run
}

func (s State) known() bool {
	return s.alive() || s == Created || s == Stopped || s == Failed || s == Suspended
}

// loadState reads the file state in dir. A file that does not parse is put
// aside, and the error says so.
func loadState(dir string) (stored, error) {
	path := filepath.Join(dir, "state")
	data, err := os.ReadFile(path)
	if err != nil {
		return stored{}, err
	}
	var s stored
	err = json.Unmarshal(data, &s)
	if err == nil && !s.State.known() {
		err = fmt.Errorf("unknown state %.80q", s.State)
	}
	if err != nil {
		os.Rename(path, path+".broken")
		return stored{}, fmt.Errorf("state file does not parse, kept as state.broken: %w", err)
	}
	return s, nil
}

// save writes the file state. Where sync is set it is on the disk when save
// returns; a state that only a live machine makes true need not be.
func (s stored) save(dir string, sync bool) error {
	return fs.WriteJSON(filepath.Join(dir, "state"), s, sync)
}

// removeAll removes dir with all below it, also what a guest made unreadable.
func removeAll(dir string) error { return replica.Remove(dir) }
