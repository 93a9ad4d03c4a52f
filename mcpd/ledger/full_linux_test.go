package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/fs/need"
)

// small returns a folder with a disk of 1 MiB of its own, too small for a
// reserve.
func small(t *testing.T) string { return sized(t, "1m") }

func sized(t *testing.T, size string) string {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		need.Missing(t, "no tmpfs: "+err.Error())
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestDiskFull(t *testing.T) {
	dir := small(t)
	db := open(t, filepath.Join(dir, "session.db"), Options{})
	first := begin1(t, db, Call{Tool: "first"})
	second := begin1(t, db, Call{Tool: "second"})

	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	var full error
	var ran uint64
	for n := 0; full == nil; n++ {
		if n == 10000 {
			t.Fatal("the disk is never full")
		}
		id, wait, err := db.Begin(bg, Call{Tool: "more", Request: make([]byte, 4000)})
		if err != nil {
			t.Fatal(err)
		}
		if full = wait(bg); full != nil {
			ran = id
		}
	}
	if fs.Errno(full) != syscall.ENOSPC || full.Error() != "no space left on device: session database" {
		t.Errorf("full disk: %v", full)
	}
	if _, err := db.beginWait(bg, Call{Request: make([]byte, 4000)}); fs.Errno(err) != syscall.ENOSPC {
		t.Errorf("Begin on a full disk: %v", err)
	}
	big := Outcome{Response: []byte(strings.Repeat("y", 4000))}
	db.End(first, big)
	db.End(ran, big)
	if err := db.endWait(bg, second, big); fs.Errno(err) != syscall.ENOSPC {
		t.Errorf("endWait on a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(bg); err != nil {
		t.Errorf("with space again: %v", err)
	}
	end1(t, db, begin1(t, db, Call{Tool: "last"}), Outcome{})
	var tools []any
	for _, r := range records(t, all(t, db, Calls)) {
		tools = append(tools, r["tool_name"])
	}
	if fmt.Sprint(tools) != "[first more second last]" {
		t.Errorf("the log has %v", tools)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// fill writes to a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
}

// What is only queued waits for space, and is refused when too much waits.
func TestQueueFull(t *testing.T) {
	dir := small(t)
	db := open(t, filepath.Join(dir, "session.db"), Options{})
	fill(t, filepath.Join(dir, "ballast"))
	detail := strings.Repeat("z", 4000)
	queued := 0
	var err error
	for err == nil {
		if queued > 4*batchBytes/len(detail) {
			t.Fatal("the queue never fills")
		}
		if err = db.Queue(bg, VMs, Row{"text": detail}); err == nil {
			queued++
		}
		if queued%1000 == 0 {
			db.Flush(bg)
		}
	}
	if fs.Errno(err) != syscall.ENOSPC {
		t.Errorf("a full queue: %v", err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if err := db.Queue(bg, VMs, Row{}); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if n := len(records(t, all(t, db, VMs))); n != queued+1 {
		t.Errorf("%d records, want %d", n, queued+1)
	}
}

// On a disk that others filled calls are decided and recorded on, for as long
// as the room lasts that is kept back; then they are refused with the reason.
func TestReserve(t *testing.T) {
	dir := sized(t, "16m")
	db := open(t, filepath.Join(dir, "session.db"), Options{})
	end1(t, db, begin1(t, db, Call{Tool: "0"}), Outcome{})
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	record := func(i int) error {
		id, err := db.beginWait(bg, Call{Tool: fmt.Sprint(i), Request: make([]byte, 200)})
		if err != nil {
			return err
		}
		return db.endWait(bg, id, Outcome{})
	}
	n := 1
	for ; n < 100000; n++ {
		if err := record(n); err != nil {
			if fs.Errno(err) != syscall.ENOSPC {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 500 || n == 100000 {
		t.Errorf("%d calls were recorded on a full disk", n)
	}
	list := records(t, all(t, db, Calls))
	for i := range n {
		if list[i]["tool_name"] != fmt.Sprint(i) {
			t.Fatalf("call %d is %v", i, list[i]["tool_name"])
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := record(n); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
