package programs

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"hutch/aggd/wire"
)

// The most programs of one aggregator that run at once, and how many it may start
// at once and a second: a crash loop or a hostile aggregator costs no more.
const (
	maxPrograms = 512
	startBurst  = 64
	startRate   = 20
)

// A Host starts the programs that servers' definitions name, for one aggregator
// at a time.
type Host struct {
	Grace   time.Duration // that a program has after SIGTERM; 2 s where it is 0
	Resolve wire.Resolver // of what environments refer to; nil: they do not
	Show    Shower        // of what programs complain of; nil: as they do

	log       io.Writer      // their standard error, line by line, with the server's name
	elsewhere Starter        // of what runs in a sandbox; nil: nothing does
	tasks     sync.WaitGroup // that see to programs

	mu      sync.Mutex // guards what follows
	last    int        // of the keys
	defined map[string]definition
	keys    map[string]string   // of programs, as they are written
	given   map[string]digest   // what the last program of a key got, where that was resolved
	running map[uint64]*running // by the number that the aggregator has for each
}

// A definition is the program of a server.
type definition struct {
	Server string
	wire.Program
}

// NewHost returns a Host that knows no program. What runs in a sandbox elsewhere
// starts; without it, such programs cannot be started.
func NewHost(log io.Writer, elsewhere Starter) *Host {
	return &Host{log: log, elsewhere: elsewhere, given: make(map[string]digest), running: make(map[uint64]*running)}
}

// Define makes the programs of servers those that can be started, and returns the
// servers as the aggregator is to be told them: with a key in the program's place,
// which stays while the program does.
func (h *Host) Define(servers []wire.Server) []wire.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys, defined := make(map[string]string), make(map[string]definition)
	told := make([]wire.Server, 0, len(servers))
	for _, s := range servers {
		if s.Started() {
			d := definition{s.Name, s.Program}
			d.Args, d.Env = slices.Clone(s.Args), maps.Clone(s.Env) // the caller may change its own
			text, _ := json.Marshal(d)                              // of strings
			key := h.keys[string(text)]
			if key == "" {
				h.last++
				key = strconv.Itoa(h.last)
			}
			keys[string(text)], defined[key] = key, d
			s.Descriptor = key
		}
		s.Program = wire.Program{}
		told = append(told, s)
	}
	h.keys, h.defined = keys, defined
	maps.DeleteFunc(h.given, func(key string, _ digest) bool { _, ok := defined[key]; return !ok })
	return told
}

// A Process is a program that runs.
type Process struct {
	Server   string // whose it is
	PID      int
	Confined bool // it is one of hutch's own that reaches the network
}

// Processes returns the programs that run, in the order of their ids.
func (h *Host) Processes() []Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Process
	for _, r := range h.running {
		if r.task == nil {
			continue
		}
		if pid := r.task.PID(); pid != 0 {
			list = append(list, Process{r.Server, pid, r.Confined})
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	return list
}
