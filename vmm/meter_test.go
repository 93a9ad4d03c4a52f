package vmm

import (
	"os/exec"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"hutch/fs/need"
)

// A machine that does nothing is looked at more and more seldom, but not after
// one of its times is up.
func TestMeterRests(t *testing.T) {
	idle := exec.Command("sleep", "1000")
	if err := idle.Start(); err != nil {
		need.Missing(t, err.Error())
	}
	t.Cleanup(func() { idle.Process.Kill(); idle.Wait() })
	v := &VM{}
	v.seen.pids = []int{idle.Process.Pid}
	if runtime.GOOS != "linux" {
		need.Missing(t, "the system does not tell what processes take")
	}
	now := time.Now()
	v.seen.Began = now
	m := &meter{v: v, quiet: meterEvery}
	if !m.active(now) || m.pause() != meterEvery {
		t.Error("a machine that was not looked at yet counts as idle")
	}
	looks := 0
	for begun := now; now.Sub(begun) < 5*time.Minute; looks++ {
		now = now.Add(m.pause())
		if m.active(now) {
			t.Fatalf("after %s it counts as active", now.Sub(begun))
		}
	}
	if looks > 25 {
		t.Errorf("%d looks in five minutes", looks)
	}
	m.busy -= time.Minute // it took so much more since
	if !m.active(now) || m.pause() != meterEvery {
		t.Errorf("active, it is looked at after %s", m.pause())
	}
	m.quiet = meterSeldom
	m.config = Config{TTL: 5 * time.Second}
	if d := m.pause(); d > 5*time.Second {
		t.Errorf("with ttl 5s it is looked at after %s", d)
	}
	m.config = Config{Idle: 40 * time.Second}
	if d := m.pause(); d != 2*time.Second {
		t.Errorf("with idle 40s it is looked at after %s", d)
	}
}

// Whoever asks what is used all the time does not keep a disk that fills from
// being measured at once.
func TestAskedFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &VM{asked: make(chan struct{}, 1)}
		m := &meter{v: v, quiet: meterSeldom, filling: make(chan struct{}, 1)}
		began := time.Now()
		wake(v.asked)
		time.AfterFunc(20*time.Millisecond, func() { wake(m.filling) })
		if !m.rest(t.Context()) || time.Since(began) > fillEvery {
			t.Errorf("what fills is looked at after %v", time.Since(began))
		}
		began = time.Now()
		wake(v.asked)
		if !m.rest(t.Context()) || time.Since(began) != meterEvery {
			t.Errorf("what is asked for is looked at after %v", time.Since(began))
		}
	})
}
