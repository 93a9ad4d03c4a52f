package main

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"hutch/fs/node"
)

func TestSameKind(t *testing.T) {
	busy := fmt.Errorf("write vm/dev/ctl: %w", node.ErrBusy)
	for text, want := range map[string]bool{
		`file in use: vm "dev" is running`:       true,
		"file in use":                            true,
		"":                                       false,
		"no space left on device: write config":  false,
		"file in user space: no kind of ours":    false,
		"invalid argument: file in use, it said": false,
	} {
		if got := sameKind(text, busy); got != want {
			t.Errorf("%q is of the kind of %q: %v", text, node.Text(busy), got)
		}
	}
}

func TestAdvice(t *testing.T) {
	if got := advice("unix!/x", fmt.Errorf("dial: %w", fs.ErrPermission)); !strings.Contains(got, "another user's") {
		t.Errorf("permission denied: %q", got)
	}
	if got := advice("unix!/x", fs.ErrNotExist); !strings.HasPrefix(got, "is hutchd running?") {
		t.Errorf("not there: %q", got)
	}
}

func TestStatus(t *testing.T) {
	for err, want := range map[error]int{nil: 0, exit(7): 7, misuse("hutch ps"): 2, node.ErrBusy: 1} {
		if got := status(err); got != want {
			t.Errorf("%v exits with %d, want %d", err, got, want)
		}
	}
}
