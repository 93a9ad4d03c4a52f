package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Every follower gets every line once and in the same order, whether it keeps
// up or lags.
func TestFollow(t *testing.T) {
	const writers, each, followers = 16, 100, 8
	db := open(t, temp(t), Options{})
	keepTails(db, 4096)
	db.beginWait(bg, Call{Tool: "first"})
	total := writers * each

	texts := make([]string, followers)
	var readers sync.WaitGroup
	for i := range followers {
		readers.Go(func() {
			var b []byte
			buf := make([]byte, 100+i*777)
			lines := 0
			for lines < total {
				n, err := db.Log(Calls).ReadAt(bg, buf, int64(len(b)), true)
				if err != nil || n == 0 {
					t.Errorf("follower %d after %d lines: %d, %v", i, lines, n, err)
					return
				}
				b = append(b, buf[:n]...)
				lines += strings.Count(string(buf[:n]), "\n")
			}
			texts[i] = string(b)
		})
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				id, err := db.beginWait(bg, Call{Tool: fmt.Sprintf("w%d-%d", w, i), Request: []byte(strings.Repeat("x", i))})
				if err == nil {
					err = db.End(id, Outcome{})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	readers.Wait()
	for i := range texts {
		if texts[i] != texts[0] {
			t.Errorf("follower %d read another text", i)
		}
	}
	seen := make(map[string]bool)
	next := make(map[string]int)
	for _, r := range records(t, texts[0]) {
		tool := r["tool_name"].(string)
		if seen[tool] {
			t.Errorf("%s is there twice", tool)
		}
		seen[tool] = true
		w, n, _ := strings.Cut(tool, "-")
		if n != fmt.Sprint(next[w]) {
			t.Errorf("%s comes after %s-%d", tool, w, next[w]-1)
		}
		next[w]++
	}
	if len(seen) != total {
		t.Errorf("%d calls, want %d", len(seen), total)
	}
}

// A read that was cancelled takes nothing with it.
func TestFollowCancelled(t *testing.T) {
	db := open(t, temp(t), Options{})
	l := db.Log(VMs)
	ctx, cancel := context.WithCancel(bg)
	got := make(chan error)
	go func() {
		_, err := l.ReadAt(ctx, make([]byte, 10), 0, true)
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
	type result struct {
		n   int
		err error
	}
	read := make(chan result)
	p := make([]byte, 6)
	go func() {
		n, err := l.ReadAt(bg, p, 0, true)
		read <- result{n, err}
	}()
	if err := db.Append(bg, VMs, Row{}); err != nil {
		t.Fatal(err)
	}
	if r := <-read; r.err != nil || string(p[:r.n]) != `{"id":` {
		t.Errorf("the next read: %q, %v", p[:r.n], r.err)
	}
}
