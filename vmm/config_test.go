package vmm

import (
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	for _, c := range [][4]string{
		{"", "cpus", "2", "cpus 2\n"},
		{"# mine\nimage a", "cpus", "2", "# mine\nimage a\ncpus 2\n"},
		{"# mine\ncpus 1\nimage a\n", "cpus", "2", "# mine\ncpus 2\nimage a\n"},
		{"# mine\ncpus 1\nimage a\n", "cpus", "", "# mine\nimage a\n"},
		{"\tcpus 1\n#cpus 3\n", "cpus", "2", "cpus 2\n#cpus 3\n"},
		{"image a\n", "cpus", "", "image a\n"},
	} {
		if got := edit(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("edit(%q, %q, %q) = %q, want %q", c[0], c[1], c[2], got, c[3])
		}
	}
}

func TestCheckEnv(t *testing.T) {
	for key, ok := range map[string]bool{
		"A": true, "_": true, "a_1": true, "LD_PRELOAD": true,
		"": false, "1A": false, "A-B": false, "A=B": false, "A ": false, ".swp": false, "A~": false, strings.Repeat("A", 257): false,
	} {
		if variable.MatchString(key) != ok {
			t.Errorf("%q is a variable: %t", key, !ok)
		}
	}
	for value, ok := range map[string]bool{
		"": true, "a=b\n": true, strings.Repeat("a", 127<<10): true,
		"\x00": false, strings.Repeat("a", 127<<10+1): false,
	} {
		if err := checkEnvValue(value); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
}
