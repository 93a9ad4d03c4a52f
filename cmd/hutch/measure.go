package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"hutch/mcpd/ledger"
)

// benchVM is the name of the VM that bench makes; it must be free.
const benchVM = "hutch-bench"

// life measures a VM from mkdir over its first output to rmdir.
func (b *bencher) life() error {
	n := 0
	return b.times("create → first output → gone", "≤ 300 ms p50", 20, func() error {
		n++
		name := benchVM + strconv.Itoa(n)
		return b.with(name, func() error { return b.echo(name) })
	})
}

// boot measures a VM's start until its guest has run a command: one from its
// image alone, the driver's own work.
func (b *bencher) boot() error {
	kill := func() error { return tellVM(b.c, benchVM, "kill") }
	return b.repeat("boot, ready for its first exec", "", 20, kill, func() error {
		if err := tellVM(b.c, benchVM, "start"); err != nil {
			return err
		}
		return b.echo(benchVM)
	})
}

func (b *bencher) execs() error {
	return b.times("exec echo ok", "≤ 5 ms p50", 300, func() error { return b.echo(benchVM) })
}

// mcp measures local__echo, called by a client in the guest through the
// relay's way, at several calls at once.
func (b *bencher) mcp() error {
	for _, load := range []struct {
		at, n  int
		target string
	}{{1, 5000, "≤ 0.3 ms p50"}, {10, 20000, ""}, {50, 20000, ""}, {200, 20000, "p99 ≤ 40 ms"}} {
		out, err := b.exec(benchVM, fmt.Sprintf(`exec hutch-relay call -n %d -c %d -t %v local__echo '{"text":"ping"}'`, load.n, load.at, enough))
		if err != nil {
			return err
		}
		var f figure
		if err := json.Unmarshal([]byte(out), &f); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		f.What, f.Target, f.Unit = fmt.Sprintf("MCP echo, %d at once", load.at), load.target, "/s"
		b.figures = append(b.figures, f)
	}
	return nil
}

// status measures a read of a VM's status from an open file.
func (b *bencher) status() error {
	name := path.Join("vm", benchVM, "status")
	f, err := b.c.open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := b.readings("status read, 9P", f); err != nil {
		return err
	}
	if b.mount == "none" {
		return nil
	}
	m, err := os.Open(filepath.Join(b.mount, name))
	if err != nil {
		return err
	}
	defer m.Close()
	return b.readings("status read, FUSE", m)
}

func (b *bencher) readings(what string, f io.ReaderAt) error {
	p := make([]byte, 4096)
	return b.times(what, "≤ 0.040 ms p50", 20000, func() error {
		if n, err := f.ReadAt(p, 0); n == 0 {
			return fmt.Errorf("nothing read: %w", err)
		}
		return nil
	})
}

// throughput measures how fast a command's output comes.
func (b *bencher) throughput() error {
	const mib = 1024
	began := time.Now()
	dir, end, err := begin(b.ctx, b.c, benchVM, fmt.Sprintf("exec head -c %dM /dev/zero", mib))
	if err != nil {
		return err
	}
	defer end()
	f, err := b.c.open(path.Join(dir, "stdout"), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	if err != nil || got != mib<<20 {
		return fmt.Errorf("%d bytes of output: %v", got, err)
	}
	b.figures = append(b.figures, figure{What: "exec stdout", N: 1, Rate: mib / time.Since(began).Seconds(), Unit: "MiB/s"})
	return nil
}

// ledger measures durable appends to a session database in the temporary folder.
func (b *bencher) ledger() error {
	if err := b.appends(16, 40000, "≥ 20k/s"); err != nil {
		return err
	}
	return b.appends(256, 400000, "≥ 150k/s")
}

func (b *bencher) appends(writers, n int, target string) error {
	dir, err := os.MkdirTemp("", "hutch-ledger-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := ledger.Open(filepath.Join(dir, "session.db"), ledger.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	took := make([][]time.Duration, writers)
	errs := make([]error, writers)
	var work sync.WaitGroup
	began := time.Now()
	for w := range writers {
		work.Go(func() {
			for range n / writers {
				one := time.Now()
				if errs[w] = db.Append(b.ctx, ledger.VMs, ledger.Row{"event": "bench", "text": "an append that waits until it is durable"}); errs[w] != nil {
					return
				}
				took[w] = append(took[w], time.Since(one))
			}
		})
	}
	work.Wait()
	whole := time.Since(began)
	var all []time.Duration
	for w := range writers {
		if errs[w] != nil {
			return errs[w]
		}
		all = append(all, took[w]...)
	}
	b.add(fmt.Sprintf("ledger append, %d writers", writers), target, all, whole)
	return nil
}

// memory measures what an idle sandbox holds: all its processes on the host,
// its aggregator's included, pages shared with others in part.
func (b *bencher) memory() error {
	mib, err := b.memoryOf(benchVM)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure{What: "memory of an idle sandbox", N: 1, Rate: mib, Unit: "MiB", Target: "≤ 100 MiB"})
	return nil
}

// memoryOf returns how many MiB a VM holds, as soon as its status tells them:
// they are measured in the background.
func (b *bencher) memoryOf(vm string) (float64, error) {
	for range 50 {
		text, err := readFile(b.c, path.Join("vm", vm, "status"))
		if err != nil {
			return 0, err
		}
		if size := pairs(text)["memory"]; size != "" {
			return strconv.ParseFloat(strings.TrimSuffix(size, "MiB"), 64)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
	return 0, fmt.Errorf("status of VM %s has no memory", vm)
}

// crowd is how many sandboxes density has at once; fewer where they take
// longer than enough to start.
const crowd = 50

// density measures what each of many idle sandboxes holds: all their
// processes on the host, pages that they share counted in part.
func (b *bencher) density() (err error) {
	var names []string
	defer func() {
		for _, name := range names {
			err = cmp.Or(err, removeVM(b.c, name, true))
		}
	}()
	began := time.Now()
	for i := range crowd {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		if i >= some && time.Since(began) > enough {
			break
		}
		name := benchVM + "-" + strconv.Itoa(i)
		if err := b.vm(name); err != nil {
			return err
		}
		names = append(names, name)
	}
	total := 0.0
	for _, name := range names {
		mib, err := b.memoryOf(name)
		if err != nil {
			return err
		}
		total += mib
	}
	b.figures = append(b.figures, figure{What: "memory of each of " + strconv.Itoa(len(names)), N: len(names), Rate: total / float64(len(names)), Unit: "MiB", Target: "≤ 100 MiB"})
	return nil
}
