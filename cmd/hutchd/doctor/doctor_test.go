package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/cgroup"
)

// A driver is one that is asked whether it works.
type driver struct {
	vmm.Driver
	name string
	err  error
}

func (d driver) Name() string                          { return d.name }
func (d driver) Probe(context.Context) (string, error) { return "as it should", d.err }

func TestReport(t *testing.T) {
	bin, empty := t.TempDir(), t.TempDir()
	for _, name := range []string{"aggd", "guest", "locald", "runsc"} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	works, broken, elsewhere := driver{name: "gvisor"}, driver{name: "qemu", err: errors.New("no qemu:\ninstall it")}, driver{name: "vz", err: fs.ErrUnsupported}
	for name, c := range map[string]struct {
		m     Machine
		want  string
		sound bool
	}{
		"whole":     {Machine{State: empty, Bin: bin, Drivers: []vmm.Driver{works, elsewhere}}, `(?s)^ok kernel .*\nok programs .*\nok driver gvisor as it should\nwarn limits -ram does not hold .*Delegate=yes.*\nok confinement .*\nok state `, true},
		"one of":    {Machine{State: empty, Bin: bin, Drivers: []vmm.Driver{works, broken}}, `\nwarn driver qemu: no qemu:; install it\n`, true},
		"no driver": {Machine{State: empty, Bin: bin, Drivers: []vmm.Driver{broken, elsewhere}}, `\nwarn driver qemu.*\nfail driver no driver runs VMs here`, false},
		"programs":  {Machine{State: empty, Bin: empty, Drivers: []vmm.Driver{works}}, `\nfail programs no aggd, guest, locald, runsc in .*: mk all`, false},
		"state":     {Machine{State: "/proc/nosuch/dir", Bin: bin, Drivers: []vmm.Driver{works}}, `\n(ok|fail) state .*\n.* disk .*/proc/nosuch/dir`, os.Getuid() == 0},
		"lacking":   {Machine{State: empty, Bin: bin, Drivers: []vmm.Driver{works}, Groups: cgroup.Find("hutch-test"), Lacking: []string{"landlock"}}, `\nwarn confinement .* without landlock: `, true},
	} {
		text, sound := Report(t.Context(), c.m)
		if name == "state" {
			sound = sound || os.Getuid() == 0
		}
		if sound != c.sound || !regexp.MustCompile(c.want).MatchString(text) {
			t.Errorf("%s: %v, %s", name, sound, text)
		}
	}
}
