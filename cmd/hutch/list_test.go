package main

import "testing"

func TestMemoryOf(t *testing.T) {
	for _, c := range []struct{ memory, ram, used, limit string }{
		{"99.0MiB", "41.1MiB of 64MiB by cgroup", "41.1MiB", "64MiB"},
		{"99.0MiB", "512MiB not enforced: no control groups", "99.0MiB", "512MiB"},
		{"99.0MiB", "", "99.0MiB", ""},
		{"", "", "", ""},
	} {
		if used, limit := memoryOf(c.memory, c.ram); used != c.used || limit != c.limit {
			t.Errorf("of %q and %q: %s / %s", c.memory, c.ram, used, limit)
		}
	}
}

func TestOnceEach(t *testing.T) {
	const begun, ended, going = `{"begun":true,"id":1}` + "\n", `{"id":1,"duration_ms":4045}` + "\n", `{"begun":true,"id":2}` + "\n"
	if got := string(onceEach([]byte(begun + going + ended))); got != going+ended {
		t.Errorf("of a call that has ended and one under way are left %s", got)
	}
}

func TestCallsIn(t *testing.T) {
	list := callsIn("dev", "running\ncalls 3\ncall 7 3.002s tools/call slow__sleep\ncpu 1s\n")
	if want := (listed{VM: "dev", State: "calling", Uptime: "3.002s", Exec: "call 7", Command: "tools/call slow__sleep"}); len(list) != 1 || list[0] != want {
		t.Errorf("%+v", list)
	}
}
