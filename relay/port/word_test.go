package port

import "testing"

func TestWord(t *testing.T) {
	for line, want := range map[string]struct {
		first uint32
		ok    bool
	}{
		"console=ttyS0 quiet\n":                   {0, false},
		"console=ttyS0 hutch.vsock=70000 quiet\n": {70000, true},
		"hutch.vsock=4294967296":                  {0, false},
		"hutch.vsock=":                            {0, false},
		"nohutch.vsock=1":                         {0, false},
	} {
		if first, ok := parseWord(line); ok != want.ok || ok && first != want.first {
			t.Errorf("%q: %d, %t", line, first, ok)
		}
	}
}
