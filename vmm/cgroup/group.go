package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Group holds the processes of a machine, and what they start. It is the
// group's folders, by controller, and as JSON tells a later process of them.
type Group map[string]place

// make makes the group's folder for controller c.
func (at place) make(c string) error {
	parent := filepath.Dir(at.Dir)
	if at.V2 {
		if err := enable(filepath.Dir(parent), c); err != nil {
			return err
		}
	}
	if err := mkdir(parent); err != nil {
		return err
	}
	if at.V2 {
		if err := enable(parent, c); err != nil {
			return err
		}
	}
	return mkdir(at.Dir)
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// enable gives the children of the group dir the controller c.
func enable(dir, c string) error {
	name := filepath.Join(dir, "cgroup.subtree_control")
	has, err := os.ReadFile(name)
	if err != nil || slices.Contains(strings.Fields(string(has)), c) {
		return err
	}
	return write(name, "+"+c)
}

// limit sets the group's limits.
func (g Group) limit(l Limits) error {
	if at, ok := g[Memory]; ok && l.RAM > 0 {
		if err := at.limitRAM(strconv.FormatInt(l.RAM, 10)); err != nil {
			return err
		}
	}
	if at, ok := g[CPU]; ok && l.CPUs > 0 {
		if err := at.limitCPUs(l.CPUs); err != nil {
			return err
		}
	}
	if at, ok := g[PIDs]; ok && l.PIDs > 0 {
		return at.set("pids.max", strconv.Itoa(l.PIDs))
	}
	return nil
}

// limitCPUs gives the members so much time of each tenth of a second.
func (at place) limitCPUs(n float64) error {
	const period = 100000 // microseconds
	quota := int64(n * period)
	if at.V2 {
		return at.set("cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if err := at.set("cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
		return err
	}
	return at.set("cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

// limitRAM limits memory, and what is swapped out with it. A machine that
// goes over it is killed whole: of one without its sandbox or its guest's
// memory nothing is of use.
func (at place) limitRAM(n string) error {
	type file struct{ name, text string }
	must, may := file{"memory.max", n}, []file{{"memory.swap.max", "0"}, {"memory.oom.group", "1"}}
	if !at.V2 {
		must, may = file{"memory.limit_in_bytes", n}, []file{{"memory.memsw.limit_in_bytes", n}}
	}
	if err := at.set(must.name, must.text); err != nil {
		return err
	}
	for _, f := range may {
		if err := at.set(f.name, f.text); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (at place) set(name, text string) error { return write(filepath.Join(at.Dir, name), text) }

// write writes to a file of the system, which must be there.
func write(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return cmp.Or(err, f.Close())
}

// Entries are the files that a process writes its number to, or 0, to become
// a member of the group.
func (g Group) Entries() []string {
	var names []string
	for _, dir := range g.dirs() {
		names = append(names, filepath.Join(dir, "cgroup.procs"))
	}
	return names
}

// Enter makes this process a member of the group that has the entries.
func Enter(entries []string) error { return Put(entries, 0) }

// Put makes the process pid a member.
func Put(entries []string, pid int) error {
	for _, name := range entries {
		if err := write(name, strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// dirs returns the group's folders.
func (g Group) dirs() []string {
	var dirs []string
	for _, at := range g {
		dirs = append(dirs, at.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Has says whether the group limits by controller c.
func (g Group) Has(c string) bool { _, ok := g[c]; return ok }

// removeLimit is how long processes that were killed may take to be gone.
const removeLimit = time.Minute

// Remove removes the group with what is left in it. One that is not there is
// fine.
func (g Group) Remove() error {
	var errs []error
	for _, dir := range g.dirs() {
		errs = append(errs, remove(dir))
	}
	return errors.Join(errs...)
}

// remove kills the members of the group dir and removes it. Until the last
// of them is gone for good it is busy.
func remove(dir string) error {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY) || time.Since(began) > removeLimit:
			return fmt.Errorf("cgroup: remove %s: %w", dir, err)
		}
		for _, pid := range members(dir) {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}
