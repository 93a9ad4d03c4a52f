//go:build linux

package gvisor

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/vmm"
)

// TestOutOfDescriptors has a guest connect while the process has no descriptor
// left for it, as others have taken them all: it is taken once there is one.
func TestOutOfDescriptors(t *testing.T) {
	taken := make(chan uint32, 1)
	s := vmm.Spec{Ports: t.TempDir(), Conn: func(port uint32, c net.Conn) {
		c.Close()
		taken <- port
	}}
	p, err := listen(s)
	if err != nil {
		t.Fatal(err)
	}
	defer p.remove()
	giveBack := takeDescriptors(t)
	defer giveBack()
	c, err := net.Dial("unix", filepath.Join(s.Ports, strconv.Itoa(vmm.PortMCP)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Of a listener that had failed nobody would take the next one, either.
	giveBack()
	if n := <-taken; n != vmm.PortMCP {
		t.Errorf("port %d", n)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Error(err)
	}
}

// takeDescriptors takes every descriptor that the process may have but one.
func takeDescriptors(t *testing.T) (giveBack func()) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	giveBack = func() {
		for _, f := range held {
			f.Close()
		}
		held = nil
		unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	if len(held) == 0 {
		giveBack()
		t.Fatal("the process has no descriptors to begin with")
	}
	held[0].Close()
	held = held[1:]
	return giveBack
}
