package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"hutch/fs"
)

// A listed is what ps tells of a VM, or of a command or an MCP call in one.
type listed struct {
	VM      string `json:"vm"`
	State   string `json:"state"`
	Uptime  string `json:"uptime,omitempty"`
	Memory  string `json:"memory,omitempty"`
	RAM     string `json:"ram,omitempty"`              // its limit
	Unheld  string `json:"ram_not_enforced,omitempty"` // why nothing holds the VM to it
	CPU     string `json:"cpu,omitempty"`              // percent of one
	Driver  string `json:"driver,omitempty"`
	Image   string `json:"image,omitempty"`
	Exec    string `json:"exec,omitempty"`
	Command string `json:"command,omitempty"`
}

// definePs has the command that prints a line for each VM, and one for each
// command in it and each MCP call under way.
func definePs(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	quiet := flags.Bool("q", false, "print the names of the VMs alone")
	return connected(func(ctx context.Context, c *tree, _ []string) error {
		if *quiet {
			names, err := folders(c, "vm")
			for _, name := range names {
				if _, err := fmt.Println(name); err != nil {
					return err
				}
			}
			return err
		}
		text, err := readFile(c, "status")
		if err != nil {
			return err
		}
		return printListed(details(c, strings.Split(strings.TrimSpace(text), "\n")), *asJSON)
	})
}

// asking bounds how many VMs are asked at once.
const asking = 16

// details asks each VM that lines of the service's status name.
func details(c *tree, lines []string) []listed {
	parts := make([][]listed, len(lines))
	turns := make(chan struct{}, asking)
	var all sync.WaitGroup
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		l := listed{VM: words[0], State: words[1], Driver: words[2], Image: words[3]}
		if l.State == "created" || l.State == "stopped" {
			parts[i] = []listed{l} // there is no more to know
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			parts[i] = detail(c, l)
			<-turns
		})
	}
	all.Wait()
	var list []listed
	for _, p := range parts {
		list = append(list, p...)
	}
	return list
}

func detail(c *tree, l listed) []listed {
	dir := path.Join("vm", l.VM)
	var calls []listed
	if text, err := readFile(c, path.Join(dir, "status")); err == nil {
		said := pairs(text)
		l.Uptime = said["uptime"]
		l.Memory, l.RAM = memoryOf(said["memory"], said["ram"])
		_, l.Unheld, _ = strings.Cut(said["ram"], unheld)
		l.CPU = percent(said["cpu"], said["since"], time.Now())
		calls = callsIn(l.VM, text)
	}
	commands := make(chan []listed, 1)
	go func() { commands <- commandsIn(c, l.VM) }() // ends with the connection at the latest
	select {
	case list := <-commands:
		return slices.Concat([]listed{l}, list, calls)
	case <-time.After(guestTime):
		l.Command = "(the guest does not answer)"
		return append([]listed{l}, calls...)
	}
}

// callsIn returns the MCP calls under way that a VM's status tells of.
func callsIn(vm, status string) (list []listed) {
	for line := range strings.Lines(status) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4); f[0] == "call" && len(f) == 4 {
			list = append(list, listed{VM: vm, State: "calling", Uptime: f[2], Exec: "call " + f[1], Command: f[3]})
		}
	}
	return list
}

// guestTime is how long a guest may take to say what runs in it.
const guestTime = 2 * time.Second

func commandsIn(c *tree, vm string) (list []listed) {
	dir := path.Join("vm", vm, "exec")
	execs, _ := folders(c, dir) // none if the VM went meanwhile
	for _, name := range execs {
		cmd, _ := readFile(c, path.Join(dir, name, "cmd"))
		state, _ := readFile(c, path.Join(dir, name, "status"))
		state, _, _ = strings.Cut(state, "\n")
		list = append(list, listed{VM: vm, State: state, Exec: name, Command: onLine(cmd)})
	}
	return list
}

// onLine returns what an exec's cmd says, on one line.
func onLine(cmd string) string {
	words, err := fs.Words(strings.TrimSuffix(cmd, "\n"))
	if err != nil {
		return fs.QuoteLine(cmd)
	}
	for i, w := range words {
		words[i] = fs.QuoteLine(w)
	}
	return strings.Join(words, " ")
}

// memoryOf returns the memory that a machine takes, and the limit of it that the line ram
// of a status tells: "71.5MiB of 512MiB by cgroup", "512MiB not enforced: why". What counts
// for the limit goes before what the processes have.
func memoryOf(memory, ram string) (used, limit string) {
	if counts, rest, ok := strings.Cut(ram, " of "); ok {
		memory, ram = counts, rest
	}
	limit, _, _ = strings.Cut(ram, " ")
	return memory, limit
}

// memoryCell is what a table has of memory, its limit, and why nothing holds the VM to it.
func memoryCell(memory, limit, unheld string) string {
	if limit == "" {
		return memory
	}
	cell := cmp.Or(memory, "-") + " / " + limit
	if unheld != "" {
		cell += " (not enforced)"
	}
	return cell
}

// percent returns what part of a processor a machine has used since it began.
func percent(cpu, since string, now time.Time) string {
	used, err := time.ParseDuration(cpu)
	began, terr := time.Parse(time.RFC3339Nano, since)
	if err != nil || terr != nil || !now.After(began) {
		return ""
	}
	return strconv.FormatFloat(100*used.Seconds()/now.Sub(began).Seconds(), 'f', 1, 64) + "%"
}

// room returns how many letters of the last cell of rows fit into a terminal
// of so many columns: 60 if it is none, and some in any.
func room(rows [][]string, columns int) int {
	if columns <= 0 {
		return 60
	}
	last := len(rows[0]) - 1
	for i := range last {
		widest := 0
		for _, r := range rows {
			widest = max(widest, utf8.RuneCountInString(r[i]))
		}
		columns -= widest + 2
	}
	return max(columns, 20)
}

// cut returns s, or as much of it as n letters have room for.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func printListed(list []listed, asJSON bool) error {
	rows := [][]string{{"VM", "STATE", "UPTIME", "MEMORY", "CPU", "DRIVER", "IMAGE", "EXEC", "COMMAND"}}
	for _, l := range list {
		rows = append(rows, []string{l.VM, l.State, l.Uptime, memoryCell(l.Memory, l.RAM, l.Unheld), l.CPU, l.Driver, l.Image, l.Exec, l.Command})
	}
	columns, _, err := term.GetSize(1)
	if err != nil {
		columns = 0
	}
	n := room(rows, columns)
	t := newTable(asJSON, rows[0]...)
	for i, r := range rows[1:] {
		r[8] = cut(r[8], n)
		if err := t.row(list[i], r...); err != nil {
			return err
		}
	}
	return t.flush()
}
