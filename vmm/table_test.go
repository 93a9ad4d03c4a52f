package vmm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hutch/fs"
)

func TestRemoveTakesWhatTheGuestMadeUnreadable(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	deep := filepath.Join(v.Dir(), "layer", "a", "b")
	os.MkdirAll(deep, 0o755)
	os.Chmod(deep, 0)
	os.Chmod(filepath.Dir(deep), 0)
	if err := w.table.Remove(w.limit(), "dev"); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, "vm")); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
}

func TestManyAtOnce(t *testing.T) {
	w := newWorld(t)
	var wait sync.WaitGroup
	for i := range 30 {
		wait.Go(func() {
			v, err := w.table.Make(w.limit(), fmt.Sprint("vm", i%10))
			if err != nil {
				if !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
				return
			}
			for _, err := range []error{v.Start(w.limit()), v.Stop(w.limit()), w.table.Remove(w.limit(), v.Name())} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if left := w.table.List(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestClosedTableMakesNothing(t *testing.T) {
	w := newWorld(t)
	w.close()
	_, err := w.table.Make(w.limit(), "dev")
	wantErr(t, err, "file in use: hutchd is ending")
	if left, _ := os.ReadDir(filepath.Join(w.dir, "vm")); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// TestMakeWith makes VMs that have a config from their beginning, or are not made.
func TestMakeWith(t *testing.T) {
	w := newWorld(t)
	v, err := w.table.MakeWith(w.limit(), "dev", "ram 256MiB\n")
	if err != nil {
		t.Fatal(err)
	}
	if ram := v.Config().RAM; ram != 256<<20 {
		t.Errorf("its ram is %d", ram)
	}
	if text, _ := os.ReadFile(filepath.Join(v.Dir(), "config")); string(text) != "ram 256MiB\n" {
		t.Errorf("its config is kept as %q", text)
	}
	_, err = w.table.MakeWith(w.limit(), "odd", "colour red\n")
	wantErr(t, err, "invalid argument: config line 1: unknown key \"colour\": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep")
	if left, _ := os.ReadDir(filepath.Join(w.dir, "vm")); len(left) != 1 {
		t.Errorf("on disk: %v", left)
	}
}
