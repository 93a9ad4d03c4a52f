package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
)

func TestPlainText(t *testing.T) {
	_, err := os.Lstat("/nosuch")
	if got := plainText(fmt.Errorf("cp: %w", err)); got != "file does not exist: cp: /nosuch: no such file or directory" {
		t.Error(got)
	}
	_, err = net.Dial("unix", "/nosuch")
	if got := plainText(err); strings.Contains(got, "dial unix") || strings.Contains(got, "connect:") || !strings.Contains(got, "/nosuch: ") {
		t.Error(got)
	}
}

func TestRoom(t *testing.T) {
	rows := [][]string{{"VM", "COMMAND"}, {"dév", strings.Repeat("x", 100)}}
	for columns, want := range map[int]int{0: 60, 80: 75, 10: 20} {
		if got := room(rows, columns); got != want {
			t.Errorf("%d columns: %d", columns, got)
		}
	}
	if got := cut("ééééé", 4) + cut("éééé", 4); got != "ééé…éééé" {
		t.Error(got)
	}
}

func TestSaysMore(t *testing.T) {
	busy := fmt.Errorf("write vm/dev/ctl: %w", fs.ErrBusy)
	for text, want := range map[string]bool{
		`file in use: vm "dev" is running`:       true,
		"file in use":                            false,
		"":                                       false,
		"no space left on device: write config":  false,
		"file in user space: no kind of ours":    false,
		"invalid argument: file in use, it said": false,
	} {
		if got := fs.SaysMore(text, busy); got != want {
			t.Errorf("%q is of the kind of %q: %v", text, fs.Text(busy), got)
		}
	}
}

func TestPairs(t *testing.T) {
	got := pairs("running\n# ram 3GiB\nram 1GiB\n\n \tram\t2GiB \nmount /a:/b /c:/d\n")
	if want := map[string]string{"running": "", "ram": "2GiB", "mount": "/a:/b /c:/d"}; !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAdvice(t *testing.T) {
	if got := advice("unix!/x", fmt.Errorf("dial: %w", os.ErrPermission)); !strings.Contains(got, "another user's") {
		t.Errorf("permission denied: %q", got)
	}
	if got := advice("unix!/x", os.ErrNotExist); !strings.HasPrefix(got, "is hutchd running?") {
		t.Errorf("not there: %q", got)
	}
}

func TestStatus(t *testing.T) {
	for err, want := range map[error]int{nil: 0, exit(7): 7, misuse("hutch ps"): 2, fs.ErrBusy: 1} {
		if got := status(err, false); got != want {
			t.Errorf("%v exits with %d, want %d", err, got, want)
		}
	}
	for err, want := range map[error]int{nil: 0, exit(7): 7, misuse("hutch run"): 125, fs.ErrBusy: 125, unset(fs.ErrInvalid): 126} {
		if got := status(err, true); got != want {
			t.Errorf("%v exits with %d where another command's status is expected, want %d", err, got, want)
		}
	}
	for line, want := range map[string]error{"0 1 1 1": nil, "3 1 1 1": exit(3), "signal40 1 1 1": exit(168), "SIGTERM 1 1 1": signaled(syscall.SIGTERM)} {
		if got := end(line); got != want {
			t.Errorf("%q is the end %v, want %v", line, got, want)
		}
	}
}

func TestShown(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{"a name", true, "a name"},
		{`"quoted"`, true, `"quoted"`},
		{"\x1b[31mred\nfile", true, `"\x1b[31mred\nfile"`},
		{"\x1b[31mred\nfile", false, "\x1b[31mred\nfile"},
	} {
		if got := shown(c.name, c.terminal); got != c.want {
			t.Errorf("%q: %s, want %s", c.name, got, c.want)
		}
	}
}
