package vmm_test

import (
	"strings"
	"testing"
	"time"

	"hutch/vmm"
)

// TestFirstStatus looks at a VM once: what it uses is in that.
func TestFirstStatus(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.looks = time.Hour
	w.open()
	v := w.running("dev")
	if text := v.Status(); !strings.Contains(text, "\nmemory ") || !strings.Contains(text, "\ncpu ") {
		t.Errorf("the first status is %q", text)
	}
}

// TestStatusOfStuck looks at a VM that cannot be measured: that is waited for,
// but not until it can.
func TestStatusOfStuck(t *testing.T) {
	w := newWorld(t)
	w.close()
	stuck := make(chan struct{})
	w.hooks.PIDs = func(*vmm.VM) []int {
		<-stuck
		return nil
	}
	w.open()
	v := w.running("dev")
	for range 2 { // one that is under way is waited for, too
		if text := v.Status(); strings.Contains(text, "\nmemory ") {
			t.Errorf("measured while stuck: %q", text)
		}
	}
	close(stuck)
}
