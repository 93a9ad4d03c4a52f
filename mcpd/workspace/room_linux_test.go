package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestAtOnce has a guest make many calls at once: none of them gets more by
// that, and those that wait take nothing.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &album{dir: t.TempDir()}
		s := a.snapshots()
		take := s.Take
		s.Take = func(ctx context.Context, name, _ string) error {
			time.Sleep(time.Second)
			return take(ctx, name, "")
		}
		s.Changes = func(ctx context.Context, _, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		w := New(t.TempDir(), s)
		descriptors := func() int {
			list, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		before := descriptors()
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 200 {
			go w.Call(ctx, "snapshots_create", json.RawMessage(fmt.Sprintf(`{"name":"%d"}`, i)))
			go w.Call(ctx, "snapshots_changes", json.RawMessage(`{"from":"a"}`))
		}
		synctest.Wait()
		if n := descriptors() - before; n > 16 {
			t.Errorf("calls that wait have %d descriptors", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(a.names) != agentMax {
			t.Errorf("%d snapshots were taken", len(a.names))
		}
		cancel()
		synctest.Wait()
	})
}
