package replica_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"hutch/vmm/replica"
)

// TestRemoveBeingWritten removes folders that something still makes files in,
// for a while.
func TestRemoveBeingWritten(t *testing.T) {
	for range 20 {
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		begun := make(chan struct{})
		writers.Go(func() {
			for i := range 3000 {
				err := os.WriteFile(filepath.Join(dir, "sub", strconv.Itoa(i)), nil, 0o644)
				if err != nil {
					return
				}
				if i == 10 {
					close(begun)
				}
			}
		})
		<-begun
		if err := replica.Remove(dir); err != nil {
			t.Fatal(err)
		}
		writers.Wait()
	}
}

// TestRemoveTogether has two remove the same folders at once, as a VM and what takes
// its old snapshots away.
func TestRemoveTogether(t *testing.T) {
	for range 50 {
		dir := filepath.Join(t.TempDir(), "dir")
		for i := range 40 {
			if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i), "below"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := replica.Remove(dir); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
}
