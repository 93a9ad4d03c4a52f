//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs/need"
)

// books are what a service has of what can leak.
type books struct {
	descriptors, goroutines, processes, mounts, groups, folders int
}

// count reads the service's books.
func (s *service) count() books {
	s.t.Helper()
	var b books
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	b.descriptors = len(list)
	for line := range strings.Lines(s.read("metrics")) {
		fmt.Sscanf(line, "go_goroutines %d", &b.goroutines)
	}
	b.processes = len(processes(s.dir + "/"))
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", s.cmd.Process.Pid))
	b.mounts = strings.Count(string(mounts), s.dir+"/")
	b.groups = len(s.groups())
	filepath.WalkDir(s.state(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			b.folders++
		}
		return nil
	})
	return b
}

// balanced says whether there is no more of anything than before. The
// runtime has a few goroutines and descriptors of its own.
func (b books) balanced(before books) bool {
	return b.descriptors <= before.descriptors+3 && b.goroutines <= before.goroutines+5 && b.processes <= before.processes &&
		b.mounts <= before.mounts && b.groups <= before.groups && b.folders <= before.folders
}

// TestSoak makes, uses and removes many VMs, half of them at once, and checks
// that nothing of them is left.
func TestSoak(t *testing.T) {
	need.Patience(t)
	rounds, at := 2, 50
	if testing.Short() {
		at = 5
	}
	s := serve(t, true)
	s.many(0, 3) // what is made once
	before := s.count()
	for round := range rounds {
		began := time.Now()
		s.many((round+1)*1000, at)
		t.Logf("%d VMs at once: %s", at, time.Since(began).Round(time.Millisecond))
	}
	after, late := s.count(), time.Now().Add(limit)
	for !after.balanced(before) && time.Now().Before(late) {
		after = s.count()
	}
	if !after.balanced(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	t.Logf("before %+v, after %+v", before, after)
}

// many has n VMs run at once: each other one anonymous, all used.
func (s *service) many(first, n int) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	all := make(chan struct{})
	for i := range n {
		done.Go(func() {
			err := s.one(first+i, i%2 == 0, func() {
				ready.Done()
				<-all
			})
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	ready.Wait()
	close(all)
	done.Wait()
}

// one makes a VM, calls running when it was used, and removes it.
func (s *service) one(number int, named bool, running func()) error {
	c := s.dial()
	defer c.Close()
	var once sync.Once
	defer once.Do(running) // or the others would wait
	name := fmt.Sprint("soak", number)
	file := "vm/clone"
	if named {
		file = "vm/" + name + "/ctl"
		if err := c.Mkdir("vm/"+name, 0o755); err != nil {
			return err
		}
	}
	ctl, err := c.Open(file, os.O_RDWR)
	if err != nil {
		return err
	}
	defer ctl.Close()
	if !named {
		p := make([]byte, 16)
		n, _ := ctl.ReadAt(p, 0)
		name = strings.TrimSpace(string(p[:n]))
	}
	if _, err := ctl.WriteAt([]byte("start\n"), 0); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := c.Mkdir("vm/"+name+"/exec/t", 0o755); err != nil {
		return err
	}
	e, err := c.Open("vm/"+name+"/exec/t/ctl", os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = e.WriteAt([]byte("exec echo used\n"), 0)
	e.Close()
	if err != nil {
		return err
	}
	out, err := c.Open("vm/"+name+"/exec/t/stdout", os.O_RDONLY)
	if err != nil {
		return err
	}
	p := make([]byte, 16)
	n, _ := out.ReadAt(p, 0)
	out.Close()
	if string(p[:n]) != "used\n" {
		return fmt.Errorf("%s prints %q", name, p[:n])
	}
	once.Do(running)
	if _, err := ctl.WriteAt([]byte("kill\n"), 0); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	if named {
		return c.Remove("vm/" + name)
	}
	return nil
}
