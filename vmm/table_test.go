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
