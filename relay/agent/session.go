package agent

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// signalSession sends a signal to the process group that leader began, and to
// every other process of its session and below it. It returns how many
// there were. If the leader was collected already and there is a process
// with its number, that is another one's.
func signalSession(leader int, sig syscall.Signal, collected bool) int {
	if collected && syscall.Kill(leader, 0) == nil {
		return 0
	}
	sent := 0
	if syscall.Kill(-leader, sig) == nil {
		sent++
	}
	for _, p := range members(leader) {
		if p.group != leader && syscall.Kill(p.pid, sig) == nil {
			sent++
		}
	}
	return sent
}

// killSession kills the session of leader, and what it started meanwhile.
func killSession(leader int, collected bool) {
	for range 5 {
		if signalSession(leader, syscall.SIGKILL, collected) == 0 || len(members(leader)) == 0 {
			return
		}
	}
}

// A process is a line of the process table.
type process struct {
	pid, parent, group, session int
}

// members returns the living processes that belong to leader: by group, by
// session, or by descent from one that does.
func members(leader int) []process {
	table := processes()
	in := map[int]bool{leader: true}
	var list []process
	for grown := true; grown; {
		grown = false
		rest := table[:0]
		for _, p := range table {
			if p.pid != leader && p.group != leader && p.session != leader && !in[p.parent] {
				rest = append(rest, p)
				continue
			}
			in[p.pid] = true
			list = append(list, p)
			grown = true
		}
		table = rest
	}
	return list
}

// processes returns what /proc has, but for zombies, for what is the kernel's
// and for ourselves.
func processes() []process {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	list := make([]process, 0, len(names))
	self := os.Getpid()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(pid, string(stat)); ok {
			list = append(list, p)
		}
	}
	return list
}

// parseStat reads the line of /proc/PID/stat. The program's name in it is in
// parentheses and may hold anything.
func parseStat(pid int, line string) (process, bool) {
	_, rest, _ := strings.Cut(line[strings.LastIndexByte(line, ')')+1:], " ")
	f := strings.Fields(rest)
	if len(f) < 7 || f[0] == "Z" || f[0] == "X" {
		return process{}, false
	}
	const kernelThread = 0x00200000 // which virtual machines show
	if flags, _ := strconv.ParseUint(f[6], 10, 64); flags&kernelThread != 0 {
		return process{}, false
	}
	p := process{pid: pid}
	for i, to := range []*int{&p.parent, &p.group, &p.session} {
		n, err := strconv.Atoi(f[i+1])
		if err != nil {
			return process{}, false
		}
		*to = n
	}
	return p, true
}
