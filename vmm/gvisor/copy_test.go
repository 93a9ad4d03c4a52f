package gvisor

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// A program can be run as soon as it is copied, also while others are started.
func TestCopyRuns(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					exec.Command(program).Run()
				}
			}
		})
	}
	for i := range 30 {
		to := filepath.Join(t.TempDir(), strconv.Itoa(i))
		if _, err := copyProgram(program, to); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(to).Run(); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	others.Wait()
}
