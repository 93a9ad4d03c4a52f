package agent

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// signalSession sends a signal to the process group that leader began, to every
// other process of its session and below it, and to those that were known to be
// there before, with what is below them. It returns all those. If the leader
// was collected already and there is a process with its number, that is another
// one's.
func signalSession(leader int, sig syscall.Signal, collected bool, known []process) []process {
	if collected && syscall.Kill(leader, 0) == nil {
		leader = nobody
	}
	list := members(leader, known) // before the signal: what it orphans is not below the leader any more
	if leader != nobody {
		syscall.Kill(-leader, sig)
	}
	for _, p := range list {
		if p.group != leader {
			syscall.Kill(p.pid, sig)
		}
	}
	return list
}

// nobody is the number of no process.
const nobody = -1

// killSession kills the session of leader and what is known to belong to it. All
// are stopped first, until none is there that was not, so that none starts another
// meanwhile that would be missed. Whatever happens, what was stopped is killed.
func killSession(leader int, collected bool, known []process) {
	if collected && syscall.Kill(leader, 0) == nil {
		leader, collected = nobody, false
	}
	var list []process
	for range 5 {
		before := len(list)
		for _, p := range signalSession(leader, syscall.SIGSTOP, collected, slices.Concat(known, list)) {
			if !p.among(list) {
				list = append(list, p)
			}
		}
		if len(list) == before {
			break
		}
	}
	if leader != nobody {
		syscall.Kill(-leader, syscall.SIGKILL)
	}
	for _, p := range list {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// A process is a line of the process table.
type process struct {
	pid, parent, group, session int

	began string // in the system's ticks: another one of its number has another
}

// among tells whether the process is one of a list.
func (p *process) among(list []process) bool {
	return slices.ContainsFunc(list, func(k process) bool { return k.pid == p.pid && k.began == p.began })
}

// members returns the living processes that belong to leader, by group, by
// session or by descent from one that does, and those known with what is below
// them.
func members(leader int, known []process) []process {
	table := processes()
	in := map[int]bool{leader: true}
	for _, p := range table {
		if p.among(known) {
			in[p.pid] = true
		}
	}
	var list []process
	for grown := true; grown; {
		grown = false
		rest := table[:0]
		for _, p := range table {
			if !in[p.pid] && p.group != leader && p.session != leader && !in[p.parent] {
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
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return process{}, false
	}
	const kernelThread = 0x00200000 // which virtual machines show
	if flags, _ := strconv.ParseUint(f[6], 10, 64); flags&kernelThread != 0 {
		return process{}, false
	}
	p := process{pid: pid, began: f[19]}
	for i, to := range []*int{&p.parent, &p.group, &p.session} {
		n, err := strconv.Atoi(f[i+1])
		if err != nil {
			return process{}, false
		}
		*to = n
	}
	return p, true
}
