package mountinfo

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line string
		want []Mount
	}{
		{`41 29 0:40 / /mnt/hutch rw,nosuid,nodev,relatime shared:9 - fuse.hutch hutch rw,user_id=1000,group_id=1000`,
			[]Mount{{"41", "0:40", "/", "/mnt/hutch", "rw,nosuid,nodev,relatime", "fuse.hutch", "hutch", "rw,user_id=1000,group_id=1000"}}},
		{`41 29 0:40 / /a\040b\134c rw - ext4 /dev/x\011y rw` + "\n",
			[]Mount{{"41", "0:40", "/", `/a b\c`, "rw", "ext4", "/dev/x\ty", "rw"}}},
		{`41 29 0:40 /a\040b /mnt rw master:1 propagate_from:2 - tmpfs none rw`,
			[]Mount{{"41", "0:40", "/a b", "/mnt", "rw", "tmpfs", "none", "rw"}}},
		{``, nil},
		{`41 29 0:40 / /mnt rw`, nil},
		{`41 29 0:40 / /mnt - tmpfs none rw`, nil},
		{`41 29 - tmpfs none rw`, nil},
		{`41 29 0:40 / /mnt rw - tmpfs`, nil},
	} {
		if got := Parse(c.line); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.line, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`41 29 0:40 / /mnt/hutch rw shared:9 - fuse.hutch hutch rw,user_id=1000`)
	f.Add(`1 1 0:1 / /\040 rw - - - - - -`)
	f.Fuzz(func(t *testing.T, table string) {
		for _, m := range Parse(table) {
			if strings.TrimSpace(m.String()) == "" {
				t.Errorf("%q: nothing", table)
			}
		}
	})
}
