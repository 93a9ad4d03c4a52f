//go:build linux

package main_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs/need"
)

// TestServerSoak has 200 servers run in sandboxes, a quarter of them at once, be
// used, ended in each way that there is, and removed, and checks that nothing of
// them is left.
func TestServerSoak(t *testing.T) {
	need.Patience(t)
	const rounds, at = 4, 50
	registry := serveImages(t)
	s := serve(t, false)
	s.manyServers(registry, 0, 4) // what is made once
	before := s.count()
	for round := range rounds {
		began := time.Now()
		s.manyServers(registry, (round+1)*1000, at)
		t.Logf("%d servers at once: %s", at, time.Since(began).Round(time.Millisecond))
	}
	after, late := s.count(), time.Now().Add(limit)
	for !after.balanced(before) && time.Now().Before(late) {
		after = s.count()
	}
	if !after.balanced(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if left := s.names("servers") + s.read("status"); left != "" {
		t.Errorf("there are %s", left)
	}
	t.Logf("before %+v, after %+v", before, after)
}

// manyServers has n servers run at once, and removes them.
func (s *service) manyServers(registry string, first, n int) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	all := make(chan struct{})
	for i := range n {
		done.Go(func() {
			running := sync.OnceFunc(func() {
				ready.Done()
				<-all
			})
			if err := s.oneServer(registry, first+i, running); err != nil {
				s.t.Errorf("server %d: %v", first+i, err)
			}
			running() // or the others would wait
		})
	}
	ready.Wait()
	close(all)
	done.Wait()
}

// oneServer makes a server, uses it, calls running, ends it in the way of its number,
// and removes it.
func (s *service) oneServer(registry string, number int, running func()) error {
	c := s.dial()
	defer c.Close()
	name := fmt.Sprint("soak", number)
	ctl := func(of, message string) error {
		f, err := c.Open(of+"/ctl", os.O_WRONLY)
		if err == nil {
			_, err = f.WriteAt([]byte(message+"\n"), 0)
			f.Close()
		}
		return err
	}
	if err := errors.Join(c.Mkdir("servers/"+name, 0o755), ctl("servers/"+name, "run "+registry+"/serve:1")); err != nil {
		return err
	}
	f, err := c.Open("servers/"+name+"/tools/where/call", os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	p := make([]byte, 1<<10)
	_, err = f.WriteAt([]byte("{}\n"), 0)
	n, _ := f.ReadAt(p, 0)
	if err != nil || !strings.Contains(string(p[:n]), "/srv 77:78") {
		return fmt.Errorf("it answers %q, %w", p[:n], err)
	}
	running()
	switch number % 4 {
	case 0:
		err = ctl("servers/"+name, "stop")
	case 1:
		err = ctl("vm/server-"+name, "kill") // it is started again, or removed meanwhile
	case 2:
		err = ctl("servers/"+name, "restart")
	}
	return errors.Join(err, c.Remove("servers/"+name))
}
