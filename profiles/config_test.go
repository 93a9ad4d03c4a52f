package profiles

import (
	"reflect"
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
		{"ram 1GiB\nram lots\n", Config{}, `config line 2: ram "lots" is not a size`},
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
		{"disk full\n", Config{}, `disk "full" is not a size like 512MiB`},
		{"idle 10ms\n", Config{}, `idle is too short: 10ms < 1s`},
		{"ttl -1h\n", Config{}, `ttl "-1h" is not a time`},
		{"ttl 5\n", Config{}, `ttl "5" is not a time: say a unit, like 5s`},
		{"ram 1MiB\n", Config{}, "ram is too small: 1MiB < 64MiB"},
		{"ram 512\n", Config{}, "ram is too small: 512 bytes < 64MiB: say a unit, like 512MiB"},
		{"ram 2.5GB\n", Config{}, `ram "2.5GB" is not a size like 512MiB: a whole number of K, KB, KiB to TiB`},
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
			t.Errorf("%.80q: %+v, %v; want %+v", c.text, got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(fs.Text(err), strings.TrimPrefix(c.err, "config line 1: invalid argument: "))) {
			t.Errorf("%.80q: error %v; want %s", c.text, err, c.err)
		}
	}
}

func TestRingConfig(t *testing.T) {
	for text, want := range map[string]string{
		"every=5m":           "snap every=5m keep=10\n",
		"keep=3 every=1h":    "snap every=1h keep=3\n",
		"every=90s  keep=1":  "snap every=1m30s keep=1\n",
		"every=1s keep=1000": "snap every=1s keep=1000\n",
		"keep=3":             `snap "keep=3" does not say every=TIME`,
		"every=5":            "want a time from 1s to 1000h, like 5m",
		"every=10ms":         "want a time from 1s to 1000h, like 5m",
		"every=-5m":          "want a time from 1s to 1000h, like 5m",
		"every=5m keep=0":    "snap keep=0: want a number from 1 to 1000",
		"every=5m keep=x":    "snap keep=x: want a number from 1 to 1000",
		"every=5m often":     `snap "often": want every=TIME keep=N`,
	} {
		c, err := ParseConfig("snap " + text)
		if err != nil {
			if !strings.HasSuffix(fs.Text(err), want) {
				t.Errorf("snap %s: %v", text, err)
			}
		} else if c.Text() != want {
			t.Errorf("snap %s: %q, want %q", text, c.Text(), want)
		}
	}
}

func TestParseMounts(t *testing.T) {
	for text, want := range map[string]any{
		"mount /a:/b\n":                               []Mount{{"/a", "/b", false, false}},
		"mount /a:/b:ro '/c d:/e f'\n":                []Mount{{"/a", "/b", true, false}, {"/c d", "/e f", false, false}},
		"mount /a:/b\nmount /c:/d:ro\n":               []Mount{{"/a", "/b", false, false}, {"/c", "/d", true, false}},
		"mount /a:/b\nmount /c:/b\n":                  []Mount{{"/c", "/b", false, false}},
		"mount /a:/b\nmount\n":                        []Mount(nil),
		"mount a:/b\n":                                "is not HOST:GUEST",
		"mount /a:b\n":                                "is not HOST:GUEST",
		"mount /a:/b:rx\n":                            "known are ro and sockets",
		"mount /a\n":                                  "is not HOST:GUEST",
		"mount /a:/\n":                                "the guest's own",
		"mount /a:/proc/x\n":                          "the guest's own",
		"mount /a:/x/../workspace\n":                  "the guest's own",
		"mount /a:/run\n":                             "the guest's own",
		"mount '/a:/b\n":                              "quote",
		"mount" + strings.Repeat(" /a:/b", 40) + "\n": []Mount{{"/a", "/b", false, false}},
	} {
		c, err := ParseConfig(text)
		list, perr := c.Mounts.List()
		switch want := want.(type) {
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		default:
			again, aerr := ParseConfig(c.Text())
			if err != nil || perr != nil || aerr != nil || !reflect.DeepEqual(list, want) || again != c {
				t.Errorf("%q: %v, %v, %v; again %+v, %v", text, list, err, perr, again, aerr)
			}
		}
	}
}

// TestResolve has a key said by layers of which the first counts.
func TestResolve(t *testing.T) {
	e := Resolve(
		Layer{"config", Config{CPUs: 2, Snap: Ring{Every: time.Minute, Keep: 3}}},
		Layer{"profile dev", Config{CPUs: 1, RAM: 1 << 30, Net: NetProxy}},
		BuiltIn)
	want := Config{Image: "host", Profile: Default, CPUs: 2, RAM: 1 << 30, PIDs: 512, Records: 256 << 20, Net: NetProxy, Snap: Ring{Every: time.Minute, Keep: 3}, Undo: UndoNone, UndoKeep: 20}
	if e.Config != want {
		t.Errorf("%+v, want %+v", e.Config, want)
	}
	for key, source := range map[string]string{"cpus": "config", "snap": "config", "ram": "profile dev", "net": "profile dev", "pids": "default", "disk": ""} {
		if got := e.Source(key); got != source {
			t.Errorf("%s comes from %q, want %q", key, got, source)
		}
	}
	for key, value := range e.All() {
		if e.Value(key) != value || FindKey(key).In&InConfig == 0 {
			t.Errorf("%s is %q and %q", key, value, e.Value(key))
		}
	}
	if FindKey("nosuch") != nil {
		t.Error("there is a key nosuch")
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
