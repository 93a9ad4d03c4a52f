//go:build linux

package main_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

var (
	crashTime = flag.Duration("crash", 30*time.Second, "for how long TestCrashes kills; a quarter of it if -short")
	crashSeed = flag.Uint64("crashseed", 0, "what TestCrashes chooses by; 0: the time")
)

// TestCrashes kills whatever runs, at random points and under load, and then
// checks the books: every call that was answered is recorded once, and every
// line of a command that was adopted came once.
func TestCrashes(t *testing.T) {
	need.Patience(t)
	d, seed := *crashTime, *crashSeed
	if testing.Short() {
		d /= 4
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	c := &crasher{service: serve(t, true), rand: rand.New(rand.NewPCG(seed, 0)), did: map[string]int{}}
	t.Logf("seed %d", seed)
	for _, name := range []string{"a", "b", "c"} {
		v := &victim{c: c, name: name}
		c.vms = append(c.vms, v)
		c.vm(name)
		v.load()
	}
	for end := time.Now().Add(d); time.Now().Before(end) && !t.Failed(); {
		c.act()
	}
	for _, v := range c.vms {
		c.answered += v.check()
	}
	what := slices.Sorted(maps.Keys(c.did))
	for i, w := range what {
		what[i] = fmt.Sprintf("%s %d", w, c.did[w])
	}
	t.Logf("%s; adoptions %d, of them of running VMs %d; calls answered %d; lines %d",
		strings.Join(what, ", "), c.adoptions, c.running, c.answered, c.lines)
	c.write("ctl", "purge all\n")
	poll(t, "empty folder of VMs", func() bool {
		list, err := os.ReadDir(filepath.Join(c.state(), "vm"))
		return err == nil && len(list) == 0
	})
}

// A crasher kills.
type crasher struct {
	*service
	rand *rand.Rand
	vms  []*victim
	did  map[string]int

	adoptions, running, answered, lines int
}

// A victim is a VM with its load: a command that counts, and an MCP client
// that notes in the workspace what it is answered.
type victim struct {
	c      *crasher
	name   string
	born   int // how often its load was started
	follow *follower
}

const calling = `sh echo $$ >/workspace/client; { printf '%%s\n' '%s'; n=0; until test -e /workspace/stop; do n=$((n+1))
	echo '{"jsonrpc":"2.0","id":'$n',"method":"tools/call","params":{"name":"local__echo","arguments":{"text":"mark-%d-'$n'-"}}}'; sleep 0.02; done; } | hutch-relay >>/workspace/answers`

// load starts the load of a VM that was just started.
func (v *victim) load() {
	v.c.t.Helper()
	v.born++
	dir := "vm/" + v.name + "/exec/"
	v.c.mkdir(dir + "count")
	v.c.write(dir+"count/ctl", "sh n=0; until test -e /workspace/stop; do n=$((n+1)); echo line $n; sleep 0.02; done; exit 7\n")
	v.c.mkdir(dir + "call")
	line := fmt.Sprintf(calling, strings.TrimSpace(hello), v.born)
	v.c.write(dir+"call/ctl", strings.ReplaceAll(line, "\n\t", "; ")+"\n")
	v.follow = follow(v.c.addr, dir+"count/stdout")
}

// answers returns the marks of the calls that were answered.
func (v *victim) answers() []string {
	text, _ := os.ReadFile(filepath.Join(v.c.state(), "vm", v.name, "work", "answers"))
	var marks []string
	for line := range strings.Lines(string(text)) {
		var r struct {
			ID     int
			Result struct{ Content []struct{ Text string } }
		}
		if json.Unmarshal([]byte(line), &r) == nil && len(r.Result.Content) == 1 {
			marks = append(marks, r.Result.Content[0].Text)
		}
	}
	return marks
}

// act waits until some VM was answered a few times more, and does something.
func (c *crasher) act() {
	v := c.vms[c.rand.IntN(len(c.vms))]
	want := len(v.answers()) + 1 + c.rand.IntN(5)
	poll(c.t, "answer in vm "+v.name, func() bool { return len(v.answers()) >= want })
	acts := []struct {
		name string
		do   func(*crasher, *victim)
	}{
		{"hutchd", (*crasher).restart}, {"hutchd", (*crasher).restart},
		{"hutchd in a verb", (*crasher).restartInVerb}, {"hutchd in a verb", (*crasher).restartInVerb}, {"hutchd in a verb", (*crasher).restartInVerb},
		{"aggd", (*crasher).killAggd}, {"locald", (*crasher).killLocald},
		{"sandbox", (*crasher).killSandbox}, {"gofer", (*crasher).killGofer},
		{"verb", (*crasher).verb},
	}
	a := acts[c.rand.IntN(len(acts))]
	c.did[a.name]++
	a.do(c, v)
}

func (c *crasher) restart(*victim) {
	c.signal(syscall.SIGKILL)
	c.start()
	c.adoptions++
	for _, v := range c.vms {
		if state := c.stateOf(v.name); state != "running" {
			c.t.Errorf("vm %s is %s after the kill of hutchd: %s", v.name, state, c.read("vm/"+v.name+"/status"))
		}
		c.running++
	}
}

// verbs are what a VM is told; %d is a number of its own.
var verbs = []string{"suspend", "snap s%d", "fork f%d", "fork -live f%d"}

func (c *crasher) pick() (string, string) {
	verb := verbs[c.rand.IntN(len(verbs))]
	c.did[strings.TrimSuffix(strings.TrimSuffix(verb, " s%d"), " f%d")]++
	if strings.Contains(verb, "%d") {
		return fmt.Sprintf(verb, c.rand.Uint32()), ""
	}
	return verb, "resume"
}

func (c *crasher) verb(v *victim) {
	verb, then := c.pick()
	c.write("vm/"+v.name+"/ctl", verb+"\n")
	if then != "" {
		c.write("vm/"+v.name+"/ctl", then+"\n")
	}
	c.tidy()
}

// restartInVerb kills hutchd in the middle of a verb. That is the one random
// time here: the point has no event.
func (c *crasher) restartInVerb(v *victim) {
	verb, then := c.pick()
	teller := c.command("hutch", "9p", "write", "vm/"+v.name+"/ctl")
	teller.Stdin = strings.NewReader(strings.TrimSpace(verb+"\n"+then) + "\n")
	if err := teller.Start(); err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(time.Duration(c.rand.IntN(400)) * time.Millisecond)
	c.signal(syscall.SIGKILL)
	teller.Wait()
	c.start()
	c.adoptions++
	if c.stateOf(v.name) == "suspended" {
		c.did["adopted suspended"]++
		c.write("vm/"+v.name+"/ctl", "resume\n")
	}
	for _, v := range c.vms {
		if state := c.stateOf(v.name); state != "running" {
			c.t.Errorf("vm %s is %s after the kill of hutchd in %s: %s", v.name, state, verb, c.read("vm/"+v.name+"/status"))
		}
		c.running++
	}
	c.tidy()
}

// tidy removes the copies of VMs.
func (c *crasher) tidy() {
	for line := range strings.Lines(c.read("status")) {
		f := strings.Fields(line)
		if len(f[0]) == 1 {
			continue
		}
		switch f[1] {
		case "running", "suspended":
			c.write("vm/"+f[0]+"/ctl", "kill\n")
		case "stopped":
		default:
			c.t.Errorf("copy: %s", line)
		}
		if err := c.client().Remove("vm/" + f[0]); err != nil {
			c.t.Errorf("rmdir vm/%s: %v (%s)", f[0], err, c.why())
		}
	}
}

func (c *crasher) stateOf(vm string) string {
	state, _, _ := strings.Cut(c.read("vm/"+vm+"/status"), "\n")
	return state
}

// value returns the number that a VM's status has for a key.
func (c *crasher) value(vm, key string) int {
	for line := range strings.Lines(c.read("vm/" + vm + "/status")) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// told waits for an event of a VM, as soon as f has brought it about.
func (s *service) told(vm, event string, f func()) {
	s.t.Helper()
	before := strings.Count(s.eventsOf(vm), event)
	f()
	began := time.Now()
	poll(s.t, event+" in the events of "+vm, func() bool { return strings.Count(s.eventsOf(vm), event) > before })
	s.t.Logf("vm %s: %s after %v", vm, event, time.Since(began).Round(time.Millisecond))
}

// eventsOf returns a VM's events so far.
func (s *service) eventsOf(vm string) string {
	s.t.Helper()
	f := s.open("vm/"+vm+"/events", os.O_RDONLY|syscall.O_NONBLOCK)
	defer f.Close()
	var text strings.Builder
	io.Copy(&text, f)
	return text.String()
}

func (c *crasher) killAggd(v *victim) {
	var pid int
	poll(c.t, "aggregator", func() bool { pid = c.value(v.name, "aggregator"); return pid != 0 })
	c.told(v.name, `"aggregator.died"`, func() { syscall.Kill(pid, syscall.SIGKILL) })
}

func (c *crasher) killLocald(v *victim) {
	var pid int
	poll(c.t, "locald", func() bool {
		_, rest, _ := strings.Cut(c.read("vm/"+v.name+"/status"), "\nserver local ")
		fmt.Sscan(rest, &pid)
		return pid != 0
	})
	c.told(v.name, `"server.died"`, func() { syscall.Kill(pid, syscall.SIGKILL) })
}

func (c *crasher) killSandbox(v *victim) {
	var pid int
	poll(c.t, "sandbox", func() bool { pid = c.value(v.name, "pid"); return pid != 0 }) // 0 would be ourselves
	c.die(v, pid)
}

func (c *crasher) killGofer(v *victim) {
	for pid, line := range processes(c.state() + "/vm/" + v.name + "/") {
		if strings.HasPrefix(line, "runsc-gofer") {
			c.die(v, pid)
			return
		}
	}
	c.t.Errorf("vm %s has no gofer", v.name)
}

// die kills a VM by one of its processes, and starts it again.
func (c *crasher) die(v *victim, pid int) {
	c.told(v.name, `"failed"`, func() { syscall.Kill(pid, syscall.SIGKILL) })
	if status := c.read("vm/" + v.name + "/status"); !strings.HasPrefix(status, "failed\nreason ") {
		c.t.Errorf("vm %s of which %d was killed: %s", v.name, pid, status)
	}
	if left := processes(c.state() + "/vm/" + v.name + "/"); len(left) > 0 {
		c.t.Errorf("left of vm %s: %v", v.name, left)
	}
	for _, name := range []string{"machine", "ports/*"} {
		if left, _ := filepath.Glob(filepath.Join(c.state(), "vm", v.name, name)); len(left) > 0 {
			c.t.Errorf("left of vm %s: %v", v.name, left)
		}
	}
	v.count(v.follow.stop())
	c.write("vm/"+v.name+"/ctl", "start\n")
	v.load()
}

// count checks a command's lines.
func (v *victim) count(text string) {
	v.c.lines += strings.Count(text, "\n")
	if text != "" {
		counted(v.c.t.(*testing.T), "vm "+v.name, text[:strings.LastIndexByte(text, '\n')+1])
	}
}

// check ends the load and checks the books. It returns how many calls were answered.
func (v *victim) check() int {
	c, dir := v.c, "vm/"+v.name+"/exec/"
	c.write("vm/"+v.name+"/work/stop", "")
	whole, status := c.read(dir+"count/stdout"), c.read(dir+"count/wait")
	if !strings.HasPrefix(status, "7 ") {
		c.t.Errorf("vm %s: the command ended %q", v.name, status)
	}
	v.count(whole)
	if got := v.follow.await(len(whole)); got != whole {
		c.t.Errorf("vm %s: who read on over the kills has %d bytes of %d", v.name, len(got), len(whole))
	}
	if status := c.read(dir + "call/wait"); !strings.HasPrefix(status, "0 ") {
		c.t.Errorf("vm %s: the client ended %q: %s", v.name, status, c.read(dir+"call/stderr"))
	}
	c.call(v.name, "local__echo", `{"text":"last"}`)
	recorded := map[string]int{}
	for line := range strings.Lines(c.calls(v.name, `\"last\"`)) {
		if _, rest, ok := strings.Cut(line, "mark-"); ok {
			of := strings.SplitN(rest, "-", 3)
			recorded["mark-"+of[0]+"-"+of[1]+"-"]++
		}
	}
	for mark, n := range recorded {
		if n != 1 {
			c.t.Errorf("vm %s: %s is recorded %d times", v.name, mark, n)
		}
	}
	marks := v.answers()
	for _, mark := range marks {
		if recorded[mark] != 1 {
			c.t.Errorf("vm %s: %s was answered and is recorded %d times", v.name, mark, recorded[mark])
		}
	}
	return len(marks)
}

// A follower reads a stream, and goes on where it was whenever hutchd is there
// again.
type follower struct {
	quit chan struct{}
	done sync.WaitGroup

	reading sync.Mutex // guards what follows
	text    []byte
	grown   chan struct{}
}

func follow(addr, name string) *follower {
	f := &follower{quit: make(chan struct{}), grown: make(chan struct{})}
	f.done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			f.read(addr, name)
			select {
			case <-tick.C:
			case <-f.quit:
				return
			}
		}
	})
	return f
}

// read reads what there is until the connection ends.
func (f *follower) read(addr, name string) {
	conn, err := dialTree(addr)
	if err != nil {
		return
	}
	defer conn.Close()
	file, err := conn.Open(name, os.O_RDONLY)
	if err != nil {
		return
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-f.quit:
			conn.Close()
		case <-over:
		}
	}()
	p := make([]byte, 64<<10)
	for {
		n, err := file.ReadAt(p, int64(len(f.text)))
		f.reading.Lock()
		f.text = append(f.text, p[:n]...)
		if n > 0 {
			close(f.grown)
			f.grown = make(chan struct{})
		}
		f.reading.Unlock()
		if err != nil || n == 0 {
			return
		}
	}
}

// await returns what was read once that is n bytes.
func (f *follower) await(n int) string {
	late := time.After(limit)
	for {
		f.reading.Lock()
		have, grown := len(f.text), f.grown
		f.reading.Unlock()
		if have >= n {
			return f.stop()
		}
		select {
		case <-grown:
		case <-late:
			return f.stop()
		}
	}
}

func (f *follower) stop() string {
	close(f.quit)
	f.done.Wait()
	return string(f.text)
}
