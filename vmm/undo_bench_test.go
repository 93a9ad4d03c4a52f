package vmm_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// BenchmarkBefore is what a call waits for before it may change a workspace of
// so many files, of which so many have changed since the last. Beside it stand,
// of the same run, a plain walk that looks at each file, and cp -a --reflink.
func BenchmarkBefore(b *testing.B) {
	for _, load := range []struct{ files, change int }{{1000, 0}, {1000, 10}, {20000, 0}, {20000, 10}} {
		b.Run(fmt.Sprintf("%d-of-%d", load.change, load.files), func(b *testing.B) { benchBefore(b, load.files, load.change) })
	}
}

func benchBefore(b *testing.B, files, change int) {
	dir := b.TempDir()
	table, err := vmm.Open(vmm.Options{Dir: dir, Drivers: []vmm.Driver{&vmmtest.Driver{}}})
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close(b.Context())
	v, err := table.Make(b.Context(), "dev")
	if err != nil {
		b.Fatal(err)
	}
	name := func(i int) string { return filepath.Join(v.WorkDir(), strconv.Itoa(i%20), strconv.Itoa(i)) }
	put := func(i int, text string) {
		os.MkdirAll(filepath.Dir(name(i)), 0o755)
		if err := os.WriteFile(name(i), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for i := range files {
		put(i, "a file of some text")
	}
	time.Sleep(50 * time.Millisecond) // as between calls: what was written a moment ago is looked into
	must(b, v.Before(b.Context(), "begin", "bench"))
	var took, walks, copies []time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range change {
			put(i*files/change, fmt.Sprint(n))
		}
		if change > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		took = append(took, timed(func() { must(b, v.Before(b.Context(), strconv.Itoa(n), "bench")) }))
		walks = append(walks, timed(func() { walk(v.WorkDir()) }))
		if n < 5 {
			copies = append(copies, timed(func() {
				must(b, exec.Command("cp", "-a", "--reflink=auto", v.WorkDir(), dir+"/copy"+strconv.Itoa(n)).Run())
			}))
		}
	}
	for _, r := range []struct {
		what string
		took []time.Duration
	}{{"", took}, {"walk-", walks}, {"cp-", copies}} {
		slices.Sort(r.took)
		b.ReportMetric(float64(r.took[len(r.took)/2].Microseconds())/1000, r.what+"p50-ms")
		b.ReportMetric(float64(r.took[len(r.took)*99/100].Microseconds())/1000, r.what+"p99-ms")
	}
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func walk(dir string) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error { d.Info(); return nil })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
