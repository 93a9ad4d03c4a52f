package vmm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hutch/vmm"
	"hutch/vmm/image/imagetest"
	"hutch/vmm/vmmtest"
)

// imported fills the image called name with the tiny one.
func (w *world) imported(name string) {
	w.Helper()
	path := filepath.Join(w.TempDir(), "tiny.tar")
	imagetest.Save(w, path, imagetest.Tiny(w))
	if err := w.table.Images().Make(name); err != nil {
		w.Fatal(err)
	}
	if err := w.table.Images().Import(w.limit(), name, path); err != nil {
		w.Fatal(err)
	}
}

func TestStartFromImage(t *testing.T) {
	w := newWorld(t)
	specs := make(chan vmm.Spec, 1)
	w.driver.Guest = func(ctx context.Context, g vmmtest.Guest) {
		specs <- g.Spec
		vmmtest.Agent(ctx, g)
	}
	w.imported("tiny")
	v := w.make("dev")
	if err := v.Set(w.limit(), "image", "tiny"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.Dir(), "env", "COLOUR"), []byte("the VM's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := v.Start(w.limit()); err != nil {
		t.Fatal(err)
	}
	s := <-specs
	if got, err := os.ReadFile(filepath.Join(s.Image.Root, "etc/motd")); string(got) != "welcome\n" {
		t.Errorf("etc/motd is %q, %v", got, err)
	}
	// Later ones win.
	want := []string{"HOME=/root", "PATH=/tiny/bin:/opt/hutch/bin", "COLOUR=of the image", "PLACE=it's home", "COLOUR=the VM's"}
	if !slices.Equal(s.Env[1:], want) {
		t.Errorf("environment %q", s.Env)
	}
	wantErr(t, w.table.RemoveImage("tiny"), "file in use: image tiny is used by vm dev")
}

// TestLongVariable has an image set a variable with which no program starts.
func TestLongVariable(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "long.tar")
	imagetest.Save(t, path, imagetest.WithEnv(t, imagetest.Tiny(t), "BIG="+strings.Repeat("x", 128<<10)))
	if err := w.table.Images().Make("long"); err != nil {
		t.Fatal(err)
	}
	if err := w.table.Images().Import(w.limit(), "long", path); err != nil {
		t.Fatal(err)
	}
	v := w.make("dev")
	if err := v.Set(w.limit(), "image", "long"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, v.Start(w.limit()), "argument list too long: image long: variable BIG: a variable has at most 130048 bytes, and it has 131072")
}

// TestImageInUse removes an image that only the machine of a VM still has,
// not the VM's config: here the profile says another one by now.
func TestImageInUse(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	now := "tiny"
	w.close()
	open := func() {
		table, err := vmm.Open(vmm.Options{Dir: w.dir, Drivers: []vmm.Driver{w.driver}, Sidecar: w.sidecar, Profile: func(string) vmm.Profile {
			mu.Lock()
			defer mu.Unlock()
			return vmm.Profile{Config: vmm.Config{Image: now}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.table = table
	}
	open()
	w.imported("tiny")
	w.running("dev")
	mu.Lock()
	now = "host"
	mu.Unlock()
	wantErr(t, w.table.RemoveImage("tiny"), "file in use: image tiny is used by vm dev")
	w.close()
	open()
	w.is(w.lookup("dev"), vmm.Running)
	wantErr(t, w.table.RemoveImage("tiny"), "file in use: image tiny is used by vm dev")
	if err := w.lookup("dev").Stop(w.limit()); err != nil {
		t.Error(err)
	}
	if err := w.table.RemoveImage("tiny"); err != nil {
		t.Error(err)
	}
	wantErr(t, w.table.RemoveImage("tiny"), `file does not exist: image "tiny"`)
	wantErr(t, w.table.RemoveImage("host"), "operation not permitted: image host is this machine: it cannot be removed")
}

// TestImageRemovedAtStart removes an image while VMs start from it: whichever
// comes first, no VM runs without its files.
func TestImageRemovedAtStart(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.imported("tiny")
		v := w.make("dev")
		if err := v.Set(w.limit(), "image", "tiny"); err != nil {
			t.Fatal(err)
		}
		started := make(chan error, 1)
		go func() { started <- v.Start(w.limit()) }()
		rerr := w.table.RemoveImage("tiny")
		serr := <-started
		if rerr == nil || !strings.Contains(rerr.Error(), "is used by vm dev") || serr != nil {
			t.Errorf("remove: %v, start: %v", rerr, serr)
		}
		if err := v.Kill(w.limit()); err != nil {
			t.Fatal(err)
		}
		if err := w.table.Remove(w.limit(), "dev"); err != nil {
			t.Fatal(err)
		}
		if err := w.table.RemoveImage("tiny"); err != nil {
			t.Fatal(err)
		}
	}
}
