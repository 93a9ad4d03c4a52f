package tree

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const crashed = `panic: no such luck [recovered, repanicked]
	panic: runtime error: index out of range [5] with length 3

goroutine 7 [running]:
panic({0x663280?, 0x85b79ad1e18?})
	/usr/local/go/src/runtime/panic.go:860 +0x13a
hutch/vmm.(*VM).turn(0xc0001, {0x1, 0x2})
	/src/hutch/vmm/vm.go:120 +0x3f
created by hutch/vmm.Open in goroutine 1
	/src/hutch/vmm/open.go:40 +0x11

goroutine 1 [select]:
main.main()
	/src/hutch/cmd/hutchd/main.go:10 +0x1
`

const other = `fatal error: all goroutines are asleep - deadlock!
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]

goroutine 1 gp=0xc0001 m=0 mp=0x1 [chan receive]:
main.main()
	/src/hutch/cmd/hutchd/main.go:12 +0x1
exit status 2
`

func TestCrashes(t *testing.T) {
	written := time.Date(2026, 7, 28, 10, 0, 0, 0, time.UTC)
	text := crashed + Crashed + "2026-07-01T00:00:00.000000Z\n" + other + crashed + Crashed + "2026-07-02T00:00:00.000000Z\n" + other
	got := crashesOf(text, written)
	want := []string{
		`2026-07-01T00:00:00.000000Z 2026-07-02T00:00:00.000000Z 2 "no such luck [recovered, repanicked]; runtime error: index out of range [5] with length 3" hutch/vmm.(*VM).turn /src/hutch/vmm/vm.go:120 3`,
		`2026-07-02T00:00:00.000000Z 2026-07-28T10:00:00.000000Z 2 "all goroutines are asleep - deadlock!" main.main /src/hutch/cmd/hutchd/main.go:12 1`,
	}
	for i, c := range got {
		if line := fmt.Sprintf("%s %s %d %q %s %d", c.First, c.Last, c.Count, c.Panic, c.Place, len(c.Frames)); i >= len(want) || line != want[i] {
			t.Errorf("crash %d: %s", i, line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d crashes: %+v", len(got), got)
	}
}

func FuzzCrashes(f *testing.F) {
	f.Add(crashed + Crashed + "x\n" + other)
	f.Add("panic: \n\ngoroutine 1 [x]:\n(\n\t:1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range crashesOf(text, time.Unix(0, 0)) {
			if c.Count < 1 || len(c.Frames) > maxFrames || len(c.Panic) > maxTold+len("…") {
				t.Fatalf("%+v", c)
			}
		}
	})
}

func TestTriage(t *testing.T) {
	f := findings{}
	f.readLog(strings.Join([]string{
		`time=2026-07-28T10:00:00.000Z level=INFO msg=starting vm=dev text=""`,
		`time=2026-07-28T10:00:00.100Z level=WARN msg="not recorded" vm=dev table=fs_events err="no \"space\""`,
		`time=2026-07-28T10:00:00.200Z level=INFO msg=records.dropped vm=dev text="5 records"`,
		`time=2026-07-28T10:00:00.750Z level=INFO msg=running vm=dev text=""`,
		`time=2026-07-28T10:00:01.000Z level=ERROR msg="not closed in order" err=x`,
		`time=2026-07-28T10:00:02.000Z level=ERROR msg="not closed in order" err="password=verysecret123"`,
		`time=2026-07-28T10:00:03.000Z level=INFO msg=server.died vm=a text="one: gone"`,
		`time=2026-07-27T10:00:03.000Z level=ERROR msg=old`,
		`rubbish = "`, `time=x level=WARN msg=y`, ``,
	}, "\n"), "2026-07-28T00:00:00.000000Z")
	var got []string
	for _, x := range f {
		vm, most := "-", 0.0
		if x.VM != nil {
			vm = *x.VM
		}
		if x.Most != nil {
			most = *x.Most
		}
		got = append(got, fmt.Sprintf("%s %s %s %d %q %q %v", x.First[11:19], x.Kind, vm, x.Count, x.Message, x.Detail, most))
	}
	want := map[string]bool{
		`10:00:00 dropped dev 1 "not recorded" "no \"space\"" 0`:           true,
		`10:00:00 dropped dev 1 "records.dropped" "5 records" 0`:           true,
		`10:00:00 slow dev 1 "start" "" 750`:                               true,
		`10:00:01 error - 2 "not closed in order" "password=[redacted]" 0`: true,
		`10:00:03 error a 1 "server.died" "one: gone" 0`:                   true,
	}
	for _, g := range got {
		if !want[g] {
			t.Errorf("found %s", g)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d findings, want %d: %q", len(got), len(want), got)
	}
	for i := range 3 * maxKinds {
		f.add("2026-07-28T10:00:00.000000Z", "error", "", fmt.Sprint(i), "", nil)
	}
	if len(f) > maxKinds+1 {
		t.Errorf("%d kinds are kept", len(f))
	}
}
