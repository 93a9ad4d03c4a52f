package cgroup

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"hutch/fs/mountinfo"
	"hutch/fs/need"
)

func TestLocate(t *testing.T) {
	for _, c := range []struct {
		text        string
		controllers []string
		want        place
	}{
		{"", controllers, place{}},
		{"nonsense\n1 2 3\n - cgroup\n", controllers, place{}},
		{"24 1 8:1 / / rw - ext4 /dev/sda rw\n", []string{"rw"}, place{}},
		{"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", controllers, place{Dir: "/sys/fs/cgroup", top: "/sys/fs/cgroup", V2: true}},
		{"33 31 0:30 /a/b /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n", []string{"rw", "cpu", "cpuacct"}, place{Dir: "/sys/fs/cgroup/cpu,cpuacct", top: "/sys/fs/cgroup/cpu,cpuacct"}},
		{"33 31 0:30 /a/b /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n", []string{"memory"}, place{}},
		{`35 31 0:30 / /my\040groups rw - cgroup cgroup rw,pids` + "\n", []string{"rw", "pids"}, place{Dir: "/my groups", top: "/my groups"}},
	} {
		for _, controller := range c.controllers {
			got, err := locate(controller, mountinfo.Parse(c.text), map[string]string{controller: "/a/b"})
			if got != c.want || (err == nil) != (c.want != place{}) {
				t.Errorf("%s of %q is at %+v, want %+v: %v", controller, c.text, got, c.want, err)
			}
		}
	}
}

func TestParseOwn(t *testing.T) {
	got := parseOwn("9:name=systemd:/\n4:memory:/a\n3:cpu,cpuacct:/b:c\nx\n2:pids\n0::/user.slice\n")
	want := map[string]string{"name=systemd": "/", "memory": "/a", "cpu": "/b:c", "cpuacct": "/b:c", "": "/user.slice"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestParseCount(t *testing.T) {
	for _, c := range []struct {
		text, key string
		want      int64
	}{
		{"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", "oom_kill", 2},
		{"low 0\nhigh 0\nmax 12\noom 3\n", "max", 12},
		{"oom_kill_disable 0\nunder_oom 0\noom_kill 7", "oom_kill", 7},
		{"oom_kill x\n", "oom_kill", 0},
		{"oom_kill -1\n", "oom_kill", 0},
		{"oom_kill max\n", "oom_kill", math.MaxInt64},
		{"", "max", 0},
	} {
		if got := parseCount(c.text, c.key); got != c.want {
			t.Errorf("%s of %q is %d, want %d", c.key, c.text, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("33 31 0:30 /a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
	f.Add("4:memory:/a\n0::/\n")
	f.Add("oom_kill 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		own := parseOwn(text)
		for _, m := range mountinfo.Parse(text) {
			for _, path := range own {
				if dir := seen(m, path); dir != m.Dir && !strings.HasPrefix(dir, m.Dir) {
					t.Errorf("%q is outside of %q", dir, m.Dir)
				}
			}
		}
		if n := parseCount(text, "oom_kill"); n < 0 {
			t.Errorf("%d", n)
		}
	})
}

// A host is a machine of folders: its /proc/self and its control groups.
type host struct {
	*testing.T
	dir string
}

func (h host) path(name string) string { return filepath.Join(h.dir, name) }

// write makes files, name and text in turn, with their folders. In a text,
// ROOT is the host's folder.
func (h host) write(files ...string) {
	h.Helper()
	for i := 0; i < len(files); i += 2 {
		if err := os.MkdirAll(filepath.Dir(h.path(files[i])), 0o755); err != nil {
			h.Fatal(err)
		}
		if err := os.WriteFile(h.path(files[i]), []byte(strings.ReplaceAll(files[i+1], "ROOT", h.dir)), 0o644); err != nil {
			h.Fatal(err)
		}
	}
}

func (h host) has(name, want string) {
	h.Helper()
	if got, err := os.ReadFile(h.path(name)); string(got) != want {
		h.Errorf("%s has %q, %v; want %q", name, got, err, want)
	}
}

func (h host) make(l Limits) Group {
	h.Helper()
	g, err := find(h.path("proc"), "svc").Make("dev", l)
	if err != nil {
		h.Fatal(err)
	}
	return g
}

// TestVersion2 is a service that is alone in its group, as systemd delegates
// one.
func TestVersion2(t *testing.T) {
	h := host{t, t.TempDir()}
	h.write(
		"proc/mountinfo", "30 23 0:26 / ROOT/cg rw - cgroup2 cgroup2 rw\n",
		"proc/cgroup", "0::/app\n",
		"cg/app/cgroup.controllers", "cpuset cpu memory pids\n",
		"cg/app/cgroup.subtree_control", "cpu memory pids\n",
		"cg/app/cgroup.events", "populated 1\n",
		"cg/app/cgroup.procs", strconv.Itoa(os.Getpid())+"\n",
		"cg/app/hutchd/cgroup.procs", "",
		"cg/app/svc/cgroup.subtree_control", "cpu memory pids\n",
		"cg/app/svc/dev/memory.max", "",
		"cg/app/svc/dev/memory.swap.max", "",
		"cg/app/svc/dev/memory.oom.group", "",
		"cg/app/svc/dev/cpu.max", "",
		"cg/app/svc/dev/pids.max", "",
		"cg/app/svc/dev/memory.current", "5000\n",
		"cg/app/svc/dev/memory.stat", "anon 1\ninactive_file 1000\n",
		"cg/app/svc/dev/memory.events", "oom 1\noom_kill 4\n",
		"cg/app/svc/dev/pids.events", "max 9\n",
	)
	g := h.make(Limits{RAM: 1 << 20, CPUs: 1.5, PIDs: 64})
	h.has("cg/app/hutchd/cgroup.procs", "0")
	for name, want := range map[string]string{
		"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000", "pids.max": "64",
	} {
		h.has("cg/app/svc/dev/"+name, want)
	}
	if got := g.Events(); got != (Events{OOM: 4, PIDs: 9}) || g.Used() != 4000 {
		t.Errorf("%+v, %d used", got, g.Used())
	}
	if got := g.Entries(); len(got) != 1 || got[0] != h.path("cg/app/svc/dev/cgroup.procs") {
		t.Errorf("entries %q", got)
	}
	text, err := json.Marshal(g)
	var again Group
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || !reflect.DeepEqual(again.Entries(), g.Entries()) || again.Events() != g.Events() {
		t.Errorf("found again: %+v, %v", again, err)
	}
}

// TestVersion2Unit is a service of systemd, as one before 254 starts it and as
// one with DelegateSubgroup does.
func TestVersion2Unit(t *testing.T) {
	for own, want := range map[string]string{
		"cg/a.slice/hutchd.service":        "cg/a.slice/svc",
		"cg/a.slice/hutchd.service/hutchd": "cg/a.slice/hutchd.service/svc",
	} {
		h := host{t, t.TempDir()}
		h.write(
			"proc/mountinfo", "30 23 0:26 / ROOT/cg rw - cgroup2 cgroup2 rw\n",
			"proc/cgroup", "0::/"+strings.TrimPrefix(own, "cg/")+"\n",
			"cg/a.slice/cgroup.controllers", "memory\n",
			"cg/a.slice/cgroup.events", "populated 1\n",
			"cg/a.slice/hutchd.service/cgroup.controllers", "memory\n",
			"cg/a.slice/hutchd.service/cgroup.events", "populated 1\n",
			own+"/cgroup.procs", strconv.Itoa(os.Getpid())+"\n",
		)
		if r := find(h.path("proc"), "svc"); r.parents[Memory].Dir != h.path(want) {
			t.Errorf("%s: %+v, %v", own, r.parents, r.missing)
		}
		h.has(own+"/cgroup.procs", strconv.Itoa(os.Getpid())+"\n")
	}
}

// TestVersion2Shared is a service that shares its group with others: only the
// first group of all gives its children controllers then.
func TestVersion2Shared(t *testing.T) {
	h := host{t, t.TempDir()}
	h.write(
		"proc/mountinfo", "30 23 0:26 / ROOT/cg rw - cgroup2 cgroup2 rw\n",
		"proc/cgroup", "0::/session\n",
		"cg/cgroup.controllers", "memory pids\n",
		"cg/session/cgroup.events", "populated 1\n",
		"cg/session/cgroup.procs", "1\n2\n",
	)
	r := find(h.path("proc"), "svc")
	if err := r.Missing(CPU); err == nil || !strings.HasSuffix(err.Error(), "/cg has no controller cpu") {
		t.Errorf("cpu: %v", err)
	}
	if err := r.Missing(Memory); err != nil || r.parents[Memory].Dir != h.path("cg/svc") {
		t.Errorf("memory: %+v, %v", r.parents, err)
	}
	h.write("cg/cgroup.events", "populated 1\n", "cg/cgroup.procs", "1\n")
	if err := find(h.path("proc"), "svc").Missing(Memory); err == nil || !strings.HasSuffix(err.Error(), "/cg/session has other processes in it") {
		t.Errorf("in a container with others: %v", err)
	}
}

// TestVersion1 has memory in a container, as part of the host's hierarchy is
// mounted there, and no pids at all.
func TestVersion1(t *testing.T) {
	h := host{t, t.TempDir()}
	h.write(
		"proc/mountinfo", "30 23 0:26 /docker/1 ROOT/memory rw - cgroup cgroup rw,memory\n31 23 0:27 / ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
		"proc/cgroup", "2:memory:/docker/1/own\n3:cpu,cpuacct:/gone\n",
		"memory/own/svc/dev/memory.limit_in_bytes", "",
		"memory/own/svc/dev/memory.memsw.limit_in_bytes", "",
		"memory/own/svc/dev/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"memory/own/svc/dev/memory.usage_in_bytes", "900\n",
		"memory/own/svc/dev/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n",
		"cpu/svc/dev/cpu.cfs_period_us", "",
		"cpu/svc/dev/cpu.cfs_quota_us", "",
	)
	g := h.make(Limits{RAM: 1 << 20, CPUs: 0.5, PIDs: 64})
	h.has("memory/own/svc/dev/memory.limit_in_bytes", "1048576")
	h.has("memory/own/svc/dev/memory.memsw.limit_in_bytes", "1048576")
	h.has("cpu/svc/dev/cpu.cfs_period_us", "100000")
	h.has("cpu/svc/dev/cpu.cfs_quota_us", "50000")
	if got := g.Events(); got != (Events{OOM: 2}) || g.Used() != 800 || g.Has(PIDs) {
		t.Errorf("%+v, %d used, %v", got, g.Used(), g)
	}
	if err := find(h.path("proc"), "svc").Missing(PIDs); err == nil || err.Error() != "no control groups with pids are mounted" {
		t.Errorf("pids: %v", err)
	}
}

func TestNothingHere(t *testing.T) {
	h := host{t, t.TempDir()}
	r := find(h.path("proc"), "svc")
	for _, c := range controllers {
		if r.Missing(c) == nil {
			t.Errorf("%s is here", c)
		}
	}
	g, err := r.Make("dev", Limits{RAM: 1})
	if err != nil || len(g.Entries()) > 0 || g.Remove() != nil {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestSystem limits processes of this machine, with what it has.
func TestSystem(t *testing.T) {
	need.Root(t)
	r := Find("hutch-test-" + strconv.Itoa(os.Getpid()))
	for _, c := range controllers {
		if err := r.Missing(c); err != nil {
			need.Missing(t, "no control groups here: "+err.Error())
		}
	}
	defer r.Close()
	g, err := r.Make("dev", Limits{RAM: 64 << 20, CPUs: 0.5, PIDs: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	if names := r.Names(); !reflect.DeepEqual(names, []string{"dev"}) {
		t.Errorf("groups %q", names)
	}
	if err := entered(g, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21; do sleep 1000 & done").Run(); err == nil {
		t.Error("21 processes")
	}
	if e := g.Events(); e.PIDs == 0 || e.OOM != 0 {
		t.Errorf("after them: %+v", e)
	}
	if err := g.Remove(); err != nil { // with those that are left
		t.Fatal(err)
	}
	if g, err = r.Make("dev", Limits{RAM: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := entered(g, "head -c 200m /dev/zero | tail").Run(); g.Events().OOM == 0 {
		t.Errorf("200 MiB: %v, %+v", err, g.Events())
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	for _, dir := range g.dirs() {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// entered returns a shell's command in the group.
func entered(g Group, line string) *exec.Cmd {
	var enter string
	for _, name := range g.Entries() {
		enter += "echo 0 >" + name + "; "
	}
	return exec.Command("sh", "-c", enter+line)
}
