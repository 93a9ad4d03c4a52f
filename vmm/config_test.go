package vmm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		text string
		want Config
		err  string
	}{
		{"", Config{}, ""},
		{"# a remark\n\nimage debian\n", Config{Image: "debian"}, ""},
		{"image\tdebian\n  cpus   2  \nram 512MiB", Config{Image: "debian", CPUs: 2, RAM: 512 << 20}, ""},
		{"ram 512m\ndisk 2g\nrecords 8mib\n", Config{RAM: 512 << 20, Disk: 2 << 30, Records: 8 << 20}, ""},
		{"ram 2G\nnet none\nhostname a-b.c\nprofile p\ndriver d\n", Config{RAM: 2 << 30, Net: "none", Hostname: "a-b.c", Profile: "p", Driver: "d"}, ""},
		{"cpus 0.5\npids 64\ndisk 10GiB\nrecords 1GiB\nidle 90s\nttl 8h\n", Config{CPUs: 0.5, PIDs: 64, Disk: 10 << 30, Records: 1 << 30, Idle: 90 * time.Second, TTL: 8 * time.Hour}, ""},
		{"image\n", Config{}, ""},
		{"imag debian\n", Config{}, `config line 1: invalid argument: unknown key "imag": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap`},
		{"image a\nram 1GiB\nimage b\n", Config{Image: "b", RAM: 1 << 30}, ""},
		{"image a\nimage\n", Config{}, ""},
		{"ram 1GiB\nram lots\n", Config{}, `config line 2: "lots" is not a size`},
		{"image a/b\n", Config{}, `"a/b" is not a name`},
		{"image ..\n", Config{}, `".." is not a name`},
		{"cpus 0\n", Config{}, `cpus "0" is not a number`},
		{"cpus many\n", Config{}, `cpus "many" is not a number`},
		{"cpus 99999\n", Config{}, "is not a number"},
		{"cpus 0.01\n", Config{}, `cpus "0.01" is not a number from 0.05 to 1024`},
		{"cpus nan\n", Config{}, `cpus "nan" is not a number`},
		{"cpus 1e2\n", Config{}, `cpus "1e2" is not a number`},
		{"pids 15\n", Config{}, `pids "15" is not a number from 16 to 4194304`},
		{"pids -20\n", Config{}, `pids "-20" is not a number`},
		{"disk 1K\n", Config{}, "disk is too small: 1K < 1MiB"},
		{"records 1M\n", Config{}, "records is too small: 1M < 4MiB"},
		{"disk full\n", Config{}, `"full" is not a size like 512MiB`},
		{"idle 10ms\n", Config{}, `idle "10ms" is not a time of a second or more, like 90s, 30m or 8h`},
		{"ttl -1h\n", Config{}, `ttl "-1h" is not a time`},
		{"ttl 5\n", Config{}, `ttl "5" is not a time`},
		{"ram 1MiB\n", Config{}, "ram is too small: 1MiB < 64MiB"},
		{"ram 512\n", Config{}, "ram is too small: 512 bytes < 64MiB: say a unit, like 512MiB"},
		{"ram 2GB\n", Config{}, `"2GB" is not a size like 512MiB: the units are K, M, G, KiB, MiB and GiB`},
		{"ram -1\n", Config{}, "is not a size"},
		{"ram 99999999999GiB\n", Config{}, "is not a size"},
		{"ram GiB\n", Config{}, "is not a size"},
		{"net host\n", Config{}, `net "host": it is none or host-proxy`},
		{"kernel vmlinuz-6.1\n", Config{}, "is not an absolute path"},
		{"kernel /boot/vmlinuz-6.1\n", Config{Kernel: "/boot/vmlinuz-6.1"}, ""},
		{"hostname a_b\n", Config{}, "is not a host name"},
		{"hostname -x\n", Config{}, "is not a host name"},
		{"hostname x-\n", Config{}, "is not a host name"},
		{"hostname .x\n", Config{}, "is not a host name"},
		{"hostname " + strings.Repeat("a", 64), Config{}, "is not a host name"},
		{"image a\x00b\n", Config{}, "line end or NUL"},
		{"image a\rb\n", Config{}, "line end or NUL"},
		{strings.Repeat("#", 65<<10), Config{}, "at most 65536"},
	} {
		got, err := ParseConfig(c.text)
		if c.err == "" && (err != nil || got != c.want) {
			t.Errorf("%q: %+v, %v; want %+v", shorten(c.text), got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(fs.Text(err), strings.TrimPrefix(c.err, "config line 1: invalid argument: "))) {
			t.Errorf("%q: error %v; want %s", shorten(c.text), err, c.err)
		}
	}
}

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

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"", "image host\n", "ram 512MiB\ncpus 2", "# x\n\n net none", "ram 1K\n", "cpus 007", "cpus 0.5\npids 64", "idle 1h0m1s\nttl 1.5h\ndisk 1MiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := ParseConfig(c.Text())
		if err != nil || again != c {
			t.Errorf("%q means %+v, whose text %q means %+v, %v", text, c, c.Text(), again, err)
		}
	})
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]error{
		"dev": nil, "a": nil, "A.b_c-9": nil, "1": nil, "-x": nil, strings.Repeat("a", 64): nil,
		"": fs.ErrInvalid, ".": fs.ErrInvalid, "..": fs.ErrInvalid, ".x": fs.ErrInvalid, "a/b": fs.ErrInvalid,
		"a b": fs.ErrInvalid, "a\x00": fs.ErrInvalid, "ä": fs.ErrInvalid, "a\n": fs.ErrInvalid,
		strings.Repeat("a", 65): fs.ErrTooLong, strings.Repeat("a", 300): fs.ErrTooLong,
	} {
		if err := CheckName(name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

func TestCheckEnv(t *testing.T) {
	for key, ok := range map[string]bool{
		"A": true, "_": true, "a_1": true, "LD_PRELOAD": true,
		"": false, "1A": false, "A-B": false, "A=B": false, "A ": false, ".swp": false, "A~": false, strings.Repeat("A", 257): false,
	} {
		if err := CheckEnvKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
	}
	for value, ok := range map[string]bool{
		"": true, "a=b\n": true, strings.Repeat("a", 128<<10): true,
		"\x00": false, strings.Repeat("a", 128<<10+1): false,
	} {
		if err := CheckEnvValue(value); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
}
