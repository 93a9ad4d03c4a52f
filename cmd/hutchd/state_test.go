package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

// TestLockOfTheEnding takes a lock that a hutchd has which is about to end, or
// will soon say that it is.
func TestLockOfTheEnding(t *testing.T) {
	defer func(limit time.Duration) { hearLimit = limit }(hearLimit)
	for _, late := range []bool{false, true} {
		dir := t.TempDir()
		old, err := lockState(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if hearLimit = time.Minute; !late {
			hearLimit = 10 * time.Millisecond
			tellEnding(old)
		}
		taken := make(chan error)
		go func() {
			f, err := lockState(t.Context(), dir)
			if err == nil {
				pid, ends := readHolder(f)
				if pid != fmt.Sprint(os.Getpid()) || ends {
					err = fmt.Errorf("the lock says %s, ending %t", pid, ends)
				}
				f.Close()
			}
			taken <- err
		}()
		select {
		case err := <-taken:
			t.Fatalf("late %t: it does not wait: %v", late, err)
		case <-time.After(50 * time.Millisecond):
		}
		tellEnding(old)
		old.Close()
		if err := <-taken; err != nil {
			t.Errorf("late %t: %v", late, err)
		}
	}
}

// TestLockOfTheDead takes a lock that a process has which is not the one that
// locked it: a child that was forked by a hutchd that was killed.
func TestLockOfTheDead(t *testing.T) {
	dir := t.TempDir()
	orphan, err := lockState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockState(t.Context(), dir)
	if want := fmt.Sprintf("%s is held by hutchd, process %d", dir, os.Getpid()); !errors.Is(err, fs.ErrBusy) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	orphan.Truncate(0)
	fmt.Fprintln(orphan, dead.Process.Pid)
	taken := make(chan error)
	go func() {
		f, err := lockState(t.Context(), dir)
		if err == nil {
			f.Close()
		}
		taken <- err
	}()
	select {
	case err := <-taken:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	orphan.Close()
	if err := <-taken; err != nil {
		t.Error(err)
	}
}

// TestLockGivenUp gives up waiting for a hutchd that is ending: a signal to the
// one that waits ends it at once.
func TestLockGivenUp(t *testing.T) {
	dir := t.TempDir()
	old, err := lockState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	tellEnding(old)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	given := make(chan error, 1)
	go func() {
		_, err := lockState(ctx, dir)
		given <- err
	}()
	select {
	case err := <-given:
		if !errors.Is(err, fs.ErrInterrupted) {
			t.Errorf("error %v, want %v", err, fs.ErrInterrupted)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
}
