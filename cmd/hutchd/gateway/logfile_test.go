package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestLogFile has lines come once and many times.
func TestLogFile(t *testing.T) {
	l := newAggLog(t.TempDir())
	os.Mkdir(filepath.Dir(l.path), 0o700)
	for range 5 {
		fmt.Fprintln(l, "s: no")
	}
	fmt.Fprint(l, "s: yes\ns: yes\ns: well\n")
	l.flush()
	text, err := os.ReadFile(l.path)
	const at = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z `
	want := "^" + at + "s: no\n(" + at + `\(the last line \d times more\)` + "\n)+" + at + "s: yes\n" + at + `\(the last line 1 times more\)` + "\n" + at + "s: well\n$"
	if ok, _ := regexp.Match(want, text); !ok || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}
