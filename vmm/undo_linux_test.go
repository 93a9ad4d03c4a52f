package vmm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// put writes a file of the VM's workspace.
func put(t testing.TB, v *vmm.VM, name, text string) {
	t.Helper()
	path := filepath.Join(v.WorkDir(), name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func (w *world) before(v *vmm.VM, id string) {
	w.Helper()
	if err := v.Before(w.limit(), id, "something"); err != nil {
		w.Fatal(err)
	}
}

// points returns ID:snapshot of what can be undone.
func (w *world) points(v *vmm.VM) string {
	w.Helper()
	list, err := v.Points()
	must(w, err)
	var all []string
	for _, p := range list {
		all = append(all, p.ID+":"+p.Snapshot)
	}
	return strings.Join(all, " ")
}

// A snapshot is taken where something changed, noted where nothing did, and
// the oldest go.
func TestBefore(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	must(t, v.Stop(w.limit()))
	must(t, v.Set(w.limit(), "undo_keep", "3"))
	w.before(v, "1")
	w.before(v, "2")
	put(t, v, "f", "one")
	w.before(v, "3")
	w.before(v, vmm.ExecID("t"))
	put(t, v, "f", "two")
	w.before(v, vmm.ExecID("t"))
	if got, want := w.points(v), "1:before-1 2:before-1 3:before-3 exec-t:before-3 exec-t:before-exec-t"; got != want {
		t.Errorf("points are %s, want %s", got, want)
	}
	put(t, v, "f", "six")
	w.before(v, vmm.ExecID("t"))
	if got, want := w.points(v), "3:before-3 exec-t:before-3 exec-t:before-exec-t exec-t:before-exec-t.2"; got != want {
		t.Errorf("points are %s, want %s", got, want)
	}
	put(t, v, "f", "seven")
	must(t, v.Undo(w.limit(), vmm.ExecID("t"))) // the last of them
	if text, _ := os.ReadFile(filepath.Join(v.WorkDir(), "f")); string(text) != "six" {
		t.Errorf("undone is %q", text)
	}
	must(t, v.Undo(w.limit(), "before-exec-t"))
	if text, _ := os.ReadFile(filepath.Join(v.WorkDir(), "f")); string(text) != "two" {
		t.Errorf("undone is %q", text)
	}
	w.await("dev undone exec-t: 1 restored, 0 removed; undo undo-1 takes that back, restored f")
	for id, want := range map[string]string{"1": `"1"`, "": `""`, "../x": `"../x"`, "mine": `"mine"`} {
		wantErr(t, v.Undo(w.limit(), id), "file does not exist: nothing to undo has the ID "+want+": read undo for what has")
	}
}

// Half a line in the file of points, as where the disk was full, costs no other.
func TestBeforeTorn(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	w.before(v, "1")
	f, err := os.OpenFile(filepath.Join(v.Snapshots().Dir("before-1"), "points"), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(`{"id":"torn","time":"2026`)
	must(t, err)
	must(t, f.Close())
	w.before(v, "2")
	if got, want := w.points(v), "1:before-1 2:before-1"; got != want {
		t.Errorf("points are %s, want %s", got, want)
	}
	must(t, v.Undo(w.limit(), "2"))
}

// What a person took stays, and is nothing to undo.
func TestBeforeKeeps(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	must(t, v.Set(w.limit(), "undo_keep", "1"))
	must(t, v.Snap(w.limit(), "before-mine"))
	for i := range 4 {
		put(t, v, "f", fmt.Sprint(i))
		w.before(v, fmt.Sprint(i))
	}
	list, err := v.Snapshots().List()
	must(t, err)
	if len(list) != 2 || list[0].Name != "before-mine" || list[1].Name != "before-3" {
		t.Errorf("there are %+v", list)
	}
	if err := v.Undo(w.limit(), "before-mine"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := v.Revert(w.limit(), "before-3"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// A workspace with a limit has snapshots for undo of no more than twice that.
func TestBeforeDisk(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	must(t, v.Set(w.limit(), "disk", "1MiB"))
	put(t, v, "stays", strings.Repeat("s", 100<<10))
	settle(t, v, "stays")
	for i := range 8 {
		put(t, v, "f", strings.Repeat(fmt.Sprint(i), 600<<10))
		w.before(v, fmt.Sprint(i))
	}
	if got, want := w.points(v), "5:before-5 6:before-6 7:before-7"; got != want {
		t.Errorf("points are %s, want %s", got, want)
	}
}

// settle waits until the file's times tell of whatever is written to it: those
// of a moment ago do not, and snapshots have copies of such a file each.
func settle(t *testing.T, v *vmm.VM, name string) {
	t.Helper()
	was, err := os.Stat(filepath.Join(v.WorkDir(), name))
	must(t, err)
	time.Sleep(time.Until(was.ModTime().Add(100 * time.Millisecond))) // its age is what matters
}

// Many calls at once each have what there was before them.
func TestBeforeAtOnce(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			id := fmt.Sprint(i)
			if err := v.Before(w.limit(), id, "write"); err != nil {
				t.Error(err)
				return
			}
			put(t, v, id, id)
		})
	}
	all.Wait()
	list, err := v.Points()
	must(t, err)
	for _, p := range list {
		if _, err := os.Stat(filepath.Join(v.Snapshots().Dir(p.Snapshot), "work", p.ID)); err == nil {
			t.Errorf("before %s there is what it made", p.ID)
		}
	}
	if len(list) != 12 {
		t.Errorf("there are %d points", len(list))
	}
	must(t, v.Undo(w.limit(), list[0].ID))
	if left, _ := os.ReadDir(v.WorkDir()); len(left) != 0 {
		t.Errorf("before the first there was %v", left)
	}
}

// A call whose client goes leaves nothing half done.
func TestBeforeInterrupted(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	for i := range 300 {
		put(t, v, fmt.Sprint("d", i%7, "/", i), "text")
	}
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		v.Before(ctx, fmt.Sprint(i), "write")
		cancel()
	}
	w.before(v, "last")
	if left, _ := filepath.Glob(filepath.Join(v.Dir(), "snap/.new-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	w.is(v, vmm.Running)
}

// A copy that fails leaves no snapshot: what it lacks would be removed when it is
// gone back to.
func TestUndoCopyFails(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	put(t, v, "f", "one")
	w.before(v, "1")
	put(t, v, "f", "two")
	put(t, v, "g", "new")
	had := w.points(v)
	ctx, cancel := context.WithCancel(w.limit())
	w.driver.Hold = func(_ context.Context, step vmmtest.Step, _ string) error {
		if step == vmmtest.Pause {
			cancel()
		}
		return nil
	}
	if err := v.Undo(ctx, "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("undo whose copy fails: %v", err)
	}
	w.driver.Hold = nil
	if got := w.points(v); got != had {
		t.Errorf("points are %s, want %s", got, had)
	}
	w.has(v, "work/g", "new")
	w.left(v, "before-1")
	w.is(v, vmm.Running)
}

// A hutchd that was killed while it undid says so once, and either state can be
// gone to. What an earlier run of the host left undone is gone.
func TestUndoCutShort(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	put(t, v, "f", "one")
	w.before(v, "1")
	put(t, v, "f", "two")
	must(t, v.Undo(w.limit(), "1"))
	put(t, v, "g", "left between")
	w.close()
	must(t, os.WriteFile(filepath.Join(w.dir, "vm/dev/undoing"), []byte("1 undo-1\n"), 0o600))
	w.open()
	v = w.lookup("dev")
	wantErr(t, v.Err(), "interrupted: hutchd was killed while it undid 1: some files of the workspace are as before that, and some are not: undo 1 again, or undo undo-1")
	must(t, v.Undo(w.limit(), "undo-1"))
	if text, _ := os.ReadFile(filepath.Join(v.WorkDir(), "f")); string(text) != "two" {
		t.Errorf("undone is %q", text)
	}
	if _, err := os.Stat(filepath.Join(v.WorkDir(), "g")); err == nil {
		t.Error("what was left between is there")
	}
	list, err := v.Snapshots().List()
	must(t, err)
	w.close()
	for _, i := range list { // as if the host had booted since
		record := filepath.Join(w.dir, "vm/dev/snap", i.Name, "record.json")
		text, err := os.ReadFile(record)
		must(t, err)
		must(t, os.WriteFile(record, []byte(strings.ReplaceAll(string(text), i.Boot, "another")), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(w.dir, "vm/dev/undoing"), []byte("1 undo-1\n"), 0o600))
	w.open()
	v = w.lookup("dev")
	wantErr(t, v.Err(), "interrupted: hutchd was killed while it undid 1: some files of the workspace are as before that, and some are not: what either state is to be made of went down with the host")
	if got := w.points(v); got != "" {
		t.Errorf("points %s", got)
	}
}
