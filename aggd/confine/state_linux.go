package confine

import (
	"fmt"
	"os"
	"strings"
)

// State says in words what confines the process pid: user, namespaces,
// capabilities, landlock, seccomp, those that do; and then, after "without", those
// that do not. It is empty when the process is gone.
func State(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(string(status), "\n"+name+":\t")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	var has, lacks []string
	for _, part := range []struct {
		name string
		is   bool
	}{
		{"user", !strings.HasPrefix(field("Uid"), fmt.Sprint(os.Getuid(), "\t")) || apart(pid, "user")},
		{"namespaces", (ownPIDs == 0 || apart(pid, "pid")) && apart(pid, "ipc") && apart(pid, "uts")},
		{"capabilities", strings.Trim(field("CapEff")+field("CapPrm")+field("CapAmb"), "0") == ""},
		{"landlock", field("NoNewPrivs") == "1" && field("Seccomp") == "2" && !lacksLandlock()},
		{"seccomp", field("Seccomp") == "2"},
	} {
		if part.is {
			has = append(has, part.name)
		} else {
			lacks = append(lacks, part.name)
		}
	}
	if len(lacks) > 0 {
		has = append(append(has, "without"), lacks...)
	}
	return strings.Join(has, " ")
}

// apart says whether the process has a namespace that is not this process's.
func apart(pid int, kind string) bool {
	its, err1 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	ours, err2 := os.Readlink("/proc/self/ns/" + kind)
	return err1 == nil && err2 == nil && its != ours
}

// lacksLandlock says whether the kernel has no Landlock; a process that has it
// and entered seccomp has entered Landlock before.
func lacksLandlock() bool {
	for _, lack := range kernelLacks() {
		if strings.HasPrefix(lack, "landlock: the kernel") {
			return true
		}
	}
	return false
}
