package guest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

// What is kept in sight takes no more memory than it may, whatever a guest's
// directories have in them, or have not.
func TestSightsAreBounded(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var s sights
	before := heap()
	learn := func(dir string, files, length int) {
		var list []fs.Described
		for i := range files {
			list = append(list, fs.Described{Stat: fs.Stat{Name: fmt.Sprintf("%05d", i)}, Target: strings.Repeat("x", length)})
		}
		s.learn([]string{"root", dir}, list, time.Now(), s.begin(), time.Hour)
		if n := heap() - before; n > 2*maxSights {
			t.Errorf("%d MiB with %d files of %d bytes", n>>20, files, length)
		}
		if files == 0 {
			return
		}
		if _, _, view := s.find([]string{"root", dir}, "00000", time.Hour, false); view != known {
			t.Error("nothing of the last one is in sight")
		}
	}
	learn("long", 20000, 4095)
	learn("short", 60000, 0)
	for i := range 10 {
		learn(fmt.Sprint("some", i), 6000, 1000)
	}
	for i := range 10000 {
		s.learn([]string{"root", strings.Repeat("p", 4000) + fmt.Sprint(i)}, nil, time.Now(), s.begin(), time.Hour)
	}
	learn("last", 0, 0)
	s.purge.Stop()
}
