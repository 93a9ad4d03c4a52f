// Package doctor looks a machine over for what a service needs of it, and says what to do
// about what it lacks.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/cgroup"
)

// A Machine is what a service has, or would have, of the machine.
type Machine struct {
	State, Bin string // folders
	Drivers    []vmm.Driver
	Groups     *cgroup.Root
	Lacking    []string // what would confine the processes that reach the network
}

// The states of what is looked at.
const (
	good = "ok"
	warn = "warn" // something does without
	bad  = "fail" // no sandbox runs
)

// A finding is a line: a state, and what is so and what to do about it.
type finding struct{ state, text string }

// checks is the table of what is looked at.
var checks = []struct {
	name string
	look func(context.Context, Machine) []finding
}{
	{"kernel", kernel},
	{"programs", programs},
	{"driver", drivers},
	{"limits", limits},
	{"confinement", confinement},
	{"fuse", fuse},
	{"state", state},
	{"disk", disk},
	{"packages", packages},
}

// Report returns a line for each thing that was looked at: ok, warn or fail, its name, and
// what is so. It says whether nothing failed.
func Report(ctx context.Context, m Machine) (text string, sound bool) {
	var b strings.Builder
	sound = true
	for _, c := range checks {
		for _, f := range c.look(ctx, m) {
			fmt.Fprintf(&b, "%s %s %s\n", f.state, c.name, fs.PlainLine(f.text))
			sound = sound && f.state != bad
		}
	}
	return b.String(), sound
}

func kernel(context.Context, Machine) []finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return []finding{{warn, err.Error()}}
	}
	return []finding{{good, fmt.Sprintf("%s %s %s, user %d", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), os.Getuid())}}
}

func programs(_ context.Context, m Machine) []finding {
	var missing []string
	for _, name := range []string{"aggd", "guest", "locald", "runsc"} {
		if unix.Access(filepath.Join(m.Bin, name), unix.X_OK) != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return []finding{{bad, fmt.Sprintf("no %s in %s: mk all and mk install put them there, hutchd -bin says where they are", strings.Join(missing, ", "), m.Bin)}}
	}
	return []finding{{good, "all are in " + m.Bin}}
}

// drivers fails where none runs VMs. Those for other systems are passed over.
func drivers(ctx context.Context, m Machine) (list []finding) {
	works := false
	for _, d := range m.Drivers {
		how, err := d.Probe(ctx)
		switch {
		case err == nil:
			works = true
			list = append(list, finding{good, d.Name() + " " + how})
		case !errors.Is(err, fs.ErrUnsupported):
			list = append(list, finding{warn, d.Name() + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")})
		}
	}
	if !works {
		list = append(list, finding{bad, "no driver runs VMs here: mend what one of them lacks"})
	}
	return list
}

func limits(_ context.Context, m Machine) (list []finding) {
	for _, l := range []struct{ key, controller string }{{"ram", cgroup.Memory}, {"cpus", cgroup.CPU}} {
		err := errors.New("there are no control groups")
		if m.Groups != nil {
			err = m.Groups.Missing(l.controller)
		}
		if err == nil {
			list = append(list, finding{good, l.key + " is held by control groups"})
			continue
		}
		list = append(list, finding{warn, fmt.Sprintf("-%s does not hold for the driver gvisor: %v: start hutchd by systemd-run --user --scope -p Delegate=yes hutchd, or as the unit hutchd", l.key, err)})
	}
	return list
}

func confinement(_ context.Context, m Machine) (list []finding) {
	for _, lack := range m.Lacking {
		list = append(list, finding{warn, "the processes that reach the network are confined without " + lack + ": a newer kernel, or another container, has it"})
	}
	if len(list) == 0 {
		list = []finding{{good, "of the processes that reach the network is whole"}}
	}
	return list
}

func fuse(context.Context, Machine) []finding {
	const without = "; 9P and the command hutch go without"
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return []finding{{warn, fmt.Sprintf("no mount: %v: modprobe fuse, chmod 666 /dev/fuse, or in a container --device /dev/fuse%s", err, without)}}
	}
	f.Close()
	if _, err := exec.LookPath("fusermount3"); err != nil && os.Getuid() != 0 {
		return []finding{{warn, "no mount: there is no fusermount3: apt install fuse3" + without}}
	}
	return []finding{{good, "mounts can be made"}}
}

func state(_ context.Context, m Machine) []finding {
	dir := there(m.State)
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return []finding{{bad, fmt.Sprintf("%s cannot be written: %v: hutchd -state says another folder", dir, err)}}
	}
	return []finding{{good, m.State}}
}

// Less room than this is told.
const (
	little    = 2 << 30
	tooLittle = 64 << 20
)

func disk(_ context.Context, m Machine) []finding {
	var st unix.Statfs_t
	if err := unix.Statfs(there(m.State), &st); err != nil {
		return []finding{{warn, err.Error()}}
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	text := fmt.Sprintf("%.1fGiB are free in %s", float64(free)/(1<<30), m.State)
	switch {
	case free < tooLittle:
		return []finding{{bad, text + ": hutch prune -images makes room"}}
	case free < little:
		return []finding{{warn, text + ": hutch prune -images makes room"}}
	}
	return []finding{{good, text}}
}

// there returns dir, or what of the way to it is there.
func there(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// packages are what servers of the image host are installed by.
func packages(context.Context, Machine) (list []finding) {
	for _, p := range []struct{ name, scheme, remedy string }{{"npm", "npx://", "apt install npm"}, {"uv", "uvx://", "pipx install uv"}, {"go", "go://", "apt install golang"}} {
		if path, err := exec.LookPath(p.name); err == nil {
			list = append(list, finding{good, p.scheme + " by " + path})
		} else {
			list = append(list, finding{warn, fmt.Sprintf("no %s, which servers of %s want: %s", p.name, p.scheme, p.remedy)})
		}
	}
	return list
}
