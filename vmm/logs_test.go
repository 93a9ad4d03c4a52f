package vmm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/vmm"
)

// Whatever a guest prints, its logs stay within their part of records.
func TestLogsAreCut(t *testing.T) {
	w := newWorld(t)
	v := w.configured("dev", "image host\nrecords 4MiB\n")
	if n := v.LedgerLimit(); n <= 2<<20 || n >= 4<<20 {
		t.Errorf("the ledger has %d", n)
	}
	f, err := os.OpenFile(filepath.Join(v.Dir(), "log", "serial"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := append(bytes.Repeat([]byte("x"), 99), '\n')
	for range 20 {
		if _, err := f.Write(bytes.Repeat(line, 10<<10)); err != nil {
			t.Fatal(err)
		}
	}
	var text []byte
	cut := func() bool { // with the line that says so, which comes after
		text, _ = os.ReadFile(filepath.Join(v.Dir(), "log", "serial"))
		return len(text) <= 256<<10 && strings.HasPrefix(string(text), "# the oldest ")
	}
	for limit := w.limit(); !cut(); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit.Done():
			t.Fatalf("the log is not cut: %d bytes, which begin with %.100q", len(text), text)
		}
	}
	if !strings.HasSuffix(string(text), string(line)) {
		t.Errorf("ends with %.100q", text[max(0, len(text)-100):])
	}
	w.is(v, vmm.Running)
}
