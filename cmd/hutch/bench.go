package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hutch/fs"
)

// A figure is one line of what bench prints.
type figure struct {
	What   string  `json:"what"`
	N      int     `json:"n"`
	P50    float64 `json:"p50_ms,omitempty"`
	P99    float64 `json:"p99_ms,omitempty"`
	Rate   float64 `json:"rate,omitempty"`
	Unit   string  `json:"unit,omitempty"` // of rate
	Target string  `json:"target,omitempty"`
}

// A bencher measures one service.
type bencher struct {
	ctx     context.Context
	c       *tree
	mount   string // where the tree is mounted, or none
	driver  string // of the VMs; "": the service's own choice
	figures []figure
}

// defineBench has the command that measures the running service, or one of its own.
func defineBench(flags *flag.FlagSet) action {
	only := flags.String("run", "", "measure what has this `word` in its name")
	driver := flags.String("driver", "", "measure VMs of this `driver`")
	return func(ctx context.Context, _ []string) error { return bench(ctx, *only, *driver) }
}

func bench(ctx context.Context, only, driver string) error {
	if c, err := dial(ctx); err == nil {
		defer c.Close()
		return benchService(ctx, c, only, driver)
	}
	fmt.Fprintln(os.Stderr, "no service runs; measuring one of our own")
	bin, err := programs(ctx)
	if err != nil {
		return err
	}
	return withService(ctx, bin, func(_ *service, c *tree) error { return benchService(ctx, c, only, driver) })
}

// measures is the table of what is measured.
var measures = []struct {
	name string
	run  func(*bencher) error
	vm   bool // with one that runs
}{
	{"create", (*bencher).life, false},
	{"boot", (*bencher).boot, true},
	{"exec", (*bencher).execs, true},
	{"mcp", (*bencher).mcp, true},
	{"policy", (*bencher).policy, false},
	{"hostmcp", (*bencher).hostMCP, false},
	{"status", (*bencher).status, true},
	{"stdout", (*bencher).throughput, true},
	{"forward", (*bencher).forwards, true},
	{"snapshot", (*bencher).snapshots, true},
	{"undo", (*bencher).undos, true},
	{"suspend", (*bencher).suspends, true},
	{"fork", (*bencher).forks, true},
	{"ledger", (*bencher).ledger, false},
	{"files", (*bencher).files, false},
	{"servers", (*bencher).servers, false},
	{"memory", (*bencher).memory, true},
	{"density", (*bencher).density, false},
}

func benchService(ctx context.Context, c *tree, only, driver string) error {
	b := &bencher{ctx: ctx, c: c, mount: "none", driver: driver}
	if text, err := readFile(c, "ctl"); err == nil {
		b.mount = pairs(text)["mount"]
	}
	for _, m := range measures {
		if !strings.Contains(m.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s …\n", m.name)
		run := m.run
		if m.vm {
			run = func(b *bencher) error { return b.with(benchVM, func() error { return m.run(b) }) }
		}
		if err := run(b); err != nil {
			return errors.Join(b.print(), fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return b.print()
}

// A measurement that takes longer than enough is cut short when it has some uses.
const (
	enough = time.Minute
	some   = 5
)

// times adds a figure of how long each of n uses of f took.
func (b *bencher) times(what, target string, n int, f func() error) error {
	return b.repeat(what, target, n, func() error { return nil }, f)
}

// repeat is times with something that is done before each use, and does not count.
func (b *bencher) repeat(what, target string, n int, before, f func() error) error {
	took := make([]time.Duration, 0, n)
	for began := time.Now(); len(took) < n && (len(took) < some || time.Since(began) < enough); {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		if err := before(); err != nil {
			return err
		}
		one := time.Now()
		if err := f(); err != nil {
			return err
		}
		took = append(took, time.Since(one))
	}
	b.add(what, target, took, sum(took))
	return nil
}

func sum(took []time.Duration) (whole time.Duration) {
	for _, d := range took {
		whole += d
	}
	return whole
}

func (b *bencher) add(what, target string, took []time.Duration, whole time.Duration) {
	slices.Sort(took)
	b.figures = append(b.figures, figure{
		What: what, N: len(took), Target: target, Unit: "/s", Rate: float64(len(took)) / whole.Seconds(),
		P50: millis(took[len(took)/2]), P99: millis(took[len(took)*99/100]),
	})
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// print prints the table, then the same as JSON.
func (b *bencher) print() error {
	if len(b.figures) == 0 {
		return nil
	}
	fmt.Printf("hutch bench: %s/%s, %d cores, %s%s\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), b.how())
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\tn\tp50 ms\tp99 ms\trate\t\ttarget\t")
	for _, f := range b.figures {
		p50, p99 := "", ""
		if f.P50 > 0 {
			p50, p99 = fmt.Sprintf("%.3f", f.P50), fmt.Sprintf("%.3f", f.P99)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.1f\t%s\t%s\t\n", f.What, f.N, p50, p99, f.Rate, f.Unit, f.Target)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Println()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"cores": runtime.NumCPU(), "arch": runtime.GOARCH, "driver": b.driver, "figures": b.figures})
}

// how says what the service says of the driver that is measured.
func (b *bencher) how() string {
	text, err := readFile(b.c, "drivers")
	if err != nil || b.driver == "" {
		return ""
	}
	return ", " + b.driver + " " + pairs(text)[b.driver]
}

// vm makes and starts a VM.
func (b *bencher) vm(name string) error {
	dir := path.Join("vm", name)
	if err := b.c.mkdir(dir, 0o755); err != nil {
		return err
	}
	if b.driver != "" {
		return ready(b.c, dir, "set driver "+b.driver, "start")
	}
	return ready(b.c, dir, "start")
}

// with does f while there is a VM that runs.
func (b *bencher) with(name string, f func() error) error {
	if err := b.vm(name); err != nil {
		return err
	}
	err := f()
	return cmp.Or(err, removeVM(b.c, name, true))
}

// withProfile does f while there is a profile called benchVM that has text.
func (b *bencher) withProfile(text string, f func() error) error {
	profile := "profiles/" + benchVM + ".toml"
	if _, err := b.c.stat(profile); err == nil {
		return fmt.Errorf("%w: %s: remove it first", fs.ErrExist, profile)
	}
	defer b.c.remove(profile)
	if err := setFile(b.c, profile, 0o600, text); err != nil {
		return err
	}
	return f()
}

// begin has a VM begin what message says in an anonymous exec, whose folder it
// returns; end ends it. It ends, too, when ctx does.
func begin(ctx context.Context, c *tree, vm, message string) (dir string, end func(), err error) {
	dir = path.Join("vm", vm, "exec")
	ctl, n, err := clone(c, dir)
	if err != nil {
		return "", nil, err
	}
	cut := context.AfterFunc(ctx, func() { tell(ctl, "kill") })
	end = func() {
		cut()
		ctl.Close()
	}
	if err := tell(ctl, message); err != nil {
		end()
		return "", nil, err
	}
	return path.Join(dir, n), end, nil
}

// run runs a message in an anonymous exec of a VM, and returns its output.
func run(ctx context.Context, c *tree, vm, message string) (string, error) {
	dir, end, err := begin(ctx, c, vm, message)
	if err != nil {
		return "", err
	}
	defer end()
	out, err := readFile(c, path.Join(dir, "stdout"))
	if err != nil {
		return "", err
	}
	wait, err := readFile(c, path.Join(dir, "wait"))
	if err == nil && !strings.HasPrefix(wait, "0 ") {
		text, _ := readFile(c, path.Join(dir, "stderr"))
		err = cmp.Or(ctx.Err(), fmt.Errorf("%s: %s: %s", message, strings.TrimSpace(wait), text))
	}
	return out, err
}

func (b *bencher) exec(vm, message string) (string, error) { return run(b.ctx, b.c, vm, message) }

// echo has a VM run a command.
func (b *bencher) echo(vm string) error {
	_, err := b.exec(vm, "exec echo ok")
	return err
}
