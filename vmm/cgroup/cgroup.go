// Package cgroup limits what the processes of a machine take together, by
// Linux' control groups of either version (cgroups(7)).
//
// A service has a folder of its own, called name, below the group that it runs
// in, so that what holds for the service holds for its machines too; in it
// each machine has a group. Version 1 has a hierarchy for each controller,
// version 2 one for all; where both are mounted, each controller is taken
// where it is. What cannot be had here, a Root tells.
package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hutch/fs/mountinfo"
)

// The controllers.
const (
	Memory = "memory"
	CPU    = "cpu"
	PIDs   = "pids"
)

var controllers = []string{Memory, CPU, PIDs}

// Limits are what a group may have; 0 is no limit.
type Limits struct {
	RAM  int64   // bytes, the page cache of its files included
	CPUs float64 // processors
	PIDs int     // processes and threads of the host
}

// A Root makes groups.
type Root struct {
	parents map[string]place // of the machines' groups, by controller
	missing map[string]error // why a controller is not in parents
}

// A place is a folder of groups.
type place struct {
	Dir string `json:"dir"`
	V2  bool   `json:"v2,omitempty"`
	top string // the first group that is seen of its hierarchy
}

// Find returns the Root for machines of the service called name. It makes
// nothing before Make does.
func Find(name string) *Root { return find("/proc/self", name) }

// find is Find for the process whose folder of /proc is proc.
func find(proc, name string) *Root {
	r := &Root{parents: make(map[string]place), missing: make(map[string]error)}
	mounts, err := mountinfo.Read(filepath.Join(proc, "mountinfo"))
	groups, gerr := os.ReadFile(filepath.Join(proc, "cgroup"))
	err, own := cmp.Or(err, gerr), parseOwn(string(groups))
	for _, c := range controllers {
		at, cerr := place{}, err
		if cerr == nil {
			at, cerr = locate(c, mounts, own)
		}
		if cerr == nil {
			at, cerr = at.parent(c, name)
		}
		if cerr != nil {
			r.missing[c] = cerr
			continue
		}
		r.parents[c] = at
	}
	return r
}

// Make makes the group called name with the limits l. One that is there
// without processes is taken.
func (r *Root) Make(name string, l Limits) (Group, error) {
	g := r.Group(name)
	for c, at := range g {
		if err := at.make(c); err != nil {
			g.Remove()
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	if err := g.limit(l); err != nil {
		g.Remove()
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return g, nil
}

// Group returns the group called name, which may not be there.
func (r *Root) Group(name string) Group {
	g := make(Group)
	for c, parent := range r.parents {
		g[c] = place{Dir: filepath.Join(parent.Dir, name), V2: parent.V2}
	}
	return g
}

// Names returns the names of the groups that are there.
func (r *Root) Names() []string {
	var names []string
	for _, parent := range r.parents {
		entries, _ := os.ReadDir(parent.Dir)
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Close removes the service's own folders if no group is in them any more.
func (r *Root) Close() {
	for _, parent := range r.parents {
		unix.Rmdir(parent.Dir)
	}
}

// Missing says why controller c cannot be had, nil if it can.
func (r *Root) Missing(c string) error { return r.missing[c] }

// parent returns the folder of the service's groups, below the place at or
// another one where groups with controller c can be made.
func (at place) parent(c, name string) (place, error) {
	dir, err := at.Dir, error(nil)
	if at.V2 {
		dir, err = delegated(at.Dir, at.top, c)
	}
	if err == nil {
		err = writable(dir)
	}
	return place{Dir: filepath.Join(dir, name), V2: at.V2}, err
}

// settled is the name of the group of the service itself, where that had to
// make room for those of its machines.
const settled = "hutchd"

// delegated returns the folder below which groups of version 2 with controller
// c can be made: own, if this process is alone there, or top, the first group
// that is seen here.
//
// A systemd before 254 knows no DelegateSubgroup: it puts a service that starts
// again into the unit's group itself, and fails while machines of the one
// before have controllers below that. Such a service has them beside it.
func delegated(own, top, c string) (string, error) {
	switch {
	case filepath.Base(own) == settled:
		own = filepath.Dir(own)
	case filepath.Ext(own) == ".service" && settle(filepath.Dir(own)) == nil:
		own = filepath.Dir(own)
	}
	dir, err := own, settle(own)
	if err != nil && top != own && settle(top) == nil {
		dir, err = top, nil
	}
	if err != nil {
		return dir, err
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err == nil && !slices.Contains(strings.Fields(string(has)), c) {
		err = fmt.Errorf("%s has no controller %s", dir, c)
	}
	return dir, err
}

// settle sees to it that children of the group dir of version 2 can have
// controllers: it must have no members, unless it is the first of all.
func settle(dir string) error {
	if err := writable(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.events")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch pids := members(dir); {
	case len(pids) == 0:
		return nil
	case len(pids) > 1 || pids[0] != os.Getpid():
		return fmt.Errorf("%s has other processes in it", dir)
	}
	child := filepath.Join(dir, settled)
	if err := mkdir(child); err != nil {
		return err
	}
	return Enter([]string{filepath.Join(child, "cgroup.procs")})
}

// writable says why no group can be made in dir.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	return nil
}
