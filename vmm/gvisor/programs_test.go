//go:build linux

package gvisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hutch/vmm/gvisor"
	"hutch/vmm/replica"
)

// upgrading returns a bench with programs of its own, and what replaces them
// by others, as go install does.
func upgrading(t *testing.T) (*bench, func()) {
	t.Helper()
	b := newBench(t)
	first, err := guestProgram()
	if err != nil {
		t.Fatal(err)
	}
	second, err := agentProgram()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := gvisor.Config{Guest: install(t, first, dir, "guest"), Runsc: install(t, runsc(t), dir, "runsc"), Dir: filepath.Join(b.dir, "gvisor")}
	b.driver = gvisor.New(c)
	return b, func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "none"), []byte("#!/bin/sh\necho a runsc of another version\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		install(t, second, dir, "other")
		for from, to := range map[string]string{"none": c.Runsc, "other": c.Guest} {
			if err := os.Rename(filepath.Join(dir, from), to); err != nil {
				t.Fatal(err)
			}
		}
		b.driver = gvisor.New(c) // of the hutchd that comes with them
	}
}

// TestProgramsAreReplaced has a machine and its copies go on with the programs
// that it began with.
func TestProgramsAreReplaced(t *testing.T) {
	b, replace := upgrading(t)
	g := b.start("dev")
	g.sh(counter)
	replace()
	state := g.machine.State()
	g.machine.Release()
	var err error
	if g.machine, err = b.driver.Adopt(limit(t), g.spec, state); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the second one is saved of a machine that was restored
		dir := g.save()
		copied := b.spec(fmt.Sprint("copy", i))
		for _, pair := range [][2]string{{g.spec.Layer, copied.spec.Layer}, {g.spec.Work, copied.spec.Work}} {
			os.Remove(pair[1])
			if _, err := replica.New(pair[0], pair[1]).Copy(limit(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.machine.Resume(limit(t)); err != nil {
			t.Fatal(err)
		}
		g.meet()
		b.restore(copied, dir)
		for _, g := range []*guest{g, copied} {
			if got := g.sh(counts); got != "yes\n" {
				t.Errorf("%s: %q", g.spec.Name, got)
			}
		}
		g.machine.Kill(limit(t))
		g.gone()
		g = copied
	}
}

// TestProgramsAreLookedAt tells what a machine would begin with, and makes
// nothing for one.
func TestProgramsAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	c := gvisor.Config{Guest: filepath.Join(dir, "guest"), Runsc: filepath.Join(dir, "runsc"), Dir: filepath.Join(dir, "gvisor")}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(c.Guest, "first")
	write(c.Runsc, "first")
	d := gvisor.New(c)
	first, err := d.Programs()
	if err != nil || first["guest"] == "" || first["guest"] != first["runsc"] {
		t.Fatal(first, err)
	}
	write(c.Guest, "the second")
	second, err := d.Programs()
	if err != nil || second["guest"] == first["guest"] || second["runsc"] != first["runsc"] {
		t.Error(second, err)
	}
	fi, err := os.Stat(c.Guest)
	if err != nil {
		t.Fatal(err)
	}
	write(c.Guest+"~", "THE SECOND") // of the same size and time
	os.Chtimes(c.Guest+"~", time.Time{}, fi.ModTime())
	os.Rename(c.Guest+"~", c.Guest)
	if third, err := d.Programs(); err != nil || third["guest"] == second["guest"] {
		t.Error("another file of the same size and time is not read again", err)
	}
	if _, err := os.Stat(c.Dir); err == nil {
		t.Error("something was made for a machine")
	}
}
