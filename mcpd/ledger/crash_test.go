package ledger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const childEnv = "HUTCH_LEDGER_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
	}
	os.Exit(m.Run())
}

// child writes calls for ever and prints the number of each that is
// acknowledged: b when it has begun, e when it has ended.
func child(path string) {
	db, err := Open(path, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	say := func(format string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format, a...)
	}
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id, err := db.beginWait(bg, Call{Tool: "t", Request: []byte(strings.Repeat("r", i%3000))})
				if err != nil {
					os.Exit(1)
				}
				say("b %d\n", id)
				if (i+w)%5 == 0 {
					continue
				}
				if err := db.endWait(bg, id, Outcome{}); err != nil {
					os.Exit(1)
				}
				say("e %d\n", id)
			}
		}()
	}
	select {}
}

func TestKill(t *testing.T) {
	path := temp(t)
	begun, ended := make(map[string]bool), make(map[string]bool)
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == 500+300*round {
				cmd.Process.Kill()
			}
			what, id, _ := strings.Cut(lines.Text(), " ")
			if what == "b" {
				begun[id] = true
			} else {
				ended[id] = true
			}
		}
		cmd.Wait()
	}
	if len(ended) == 0 {
		t.Fatal("the child wrote nothing")
	}
	db := open(t, path, Options{})
	outcome := make(map[string]any)
	for _, r := range records(t, all(t, db, Calls)) {
		id := r["id"].(json.Number).String()
		if outcome[id] != nil {
			t.Errorf("call %s is there twice", id)
		}
		outcome[id] = r["outcome"]
	}
	for id := range begun {
		if outcome[id] == nil {
			t.Errorf("call %s is lost", id)
		}
		if ended[id] && outcome[id] != OK {
			t.Errorf("call %s has ended, and is %v", id, outcome[id])
		}
	}
}
