package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log keeps its newest lines, whole ones, and says how much went.
func TestLogFile(t *testing.T) {
	const limit = 64 << 10
	for _, line := range []int{10, 100, 9000} {
		t.Run(fmt.Sprint(line), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			l, err := OpenLogFile(path, limit)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			var text strings.Builder
			for i := 0; text.Len() < 20*limit; i++ {
				s := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", line))
				text.WriteString(s)
				w := l.Write
				if i%10 == 9 { // a process that was given the file
					w = other.Write
				}
				if n, err := w([]byte(s)); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := CutLog(path, limit); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil || len(data) > limit || len(data) < limit/4 {
				t.Fatalf("%d bytes, %v", len(data), err)
			}
			head, rest, _ := strings.Cut(string(data), "\n")
			var gone int
			if _, err := fmt.Sscanf(head, "# the oldest %d bytes", &gone); err != nil {
				t.Fatalf("begins with %.80q: %v", head, err)
			}
			if gone+len(data) != text.Len() {
				t.Errorf("%d gone and %d kept of %d", gone, len(data), text.Len())
			}
			if !strings.HasSuffix(text.String(), "\n"+rest) && line < 1000 {
				t.Errorf("goes on with %.80q", rest)
			}
			if !strings.HasSuffix(text.String(), rest) {
				t.Error("other text is there than was written")
			}
		})
	}
}
