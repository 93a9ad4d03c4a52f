package fuse

import (
	"strings"
	"testing"
)

func TestParseMounted(t *testing.T) {
	for _, c := range []struct {
		line string
		want *mounted
	}{
		{`41 29 0:40 / /mnt/hutch rw,nosuid,nodev,relatime shared:9 - fuse.hutch hutch rw,user_id=1000,group_id=1000`,
			&mounted{"0:40", "/mnt/hutch", "fuse.hutch", "hutch", "rw,user_id=1000,group_id=1000", "rw,nosuid,nodev,relatime"}},
		{`41 29 0:40 / /a\040b\134c rw - ext4 /dev/x\011y rw` + "\n",
			&mounted{"0:40", `/a b\c`, "ext4", "/dev/x\ty", "rw", "rw"}},
		{`41 29 0:40 / /mnt rw master:1 propagate_from:2 - tmpfs none rw`,
			&mounted{"0:40", "/mnt", "tmpfs", "none", "rw", "rw"}},
		{``, nil},
		{`41 29 0:40 / /mnt rw`, nil},
		{`41 29 0:40 / /mnt - tmpfs none rw`, nil},
		{`41 29 - tmpfs none rw`, nil},
		{`41 29 0:40 / /mnt rw - tmpfs`, nil},
	} {
		got := parseMounted(c.line)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%q: %v, want %v", c.line, got, c.want)
		}
	}
}

func FuzzParseMounted(f *testing.F) {
	f.Add(`41 29 0:40 / /mnt/hutch rw shared:9 - fuse.hutch hutch rw,user_id=1000`)
	f.Add(`1 1 0:1 / /\040 rw - - - - - -`)
	f.Fuzz(func(t *testing.T, line string) {
		if m := parseMounted(line); m != nil && strings.TrimSpace(m.String()) == "" {
			t.Errorf("%q: nothing", line)
		}
	})
}
