package fuse

import (
	"maps"
	"slices"
	"testing"
)

func TestLockedFiles(t *testing.T) {
	const list = `1: POSIX  ADVISORY  WRITE 3568 00:2f:4611686018427389999 0 EOF
1: -> POSIX  ADVISORY  WRITE 3569 00:2f:4611686018427389999 0 EOF
2: FLOCK  ADVISORY  WRITE 3548 00:2f:77 0 EOF
3: OFDLCK ADVISORY  READ -1 103:01:78 0 EOF
4: FLOCK  ADVISORY  WRITE 3548 00:30:79 0 EOF
5: LEASE  ACTIVE READ 1 zz:01:80 0 EOF
`
	for device, want := range map[string][]uint64{"0:47": {77, 4611686018427389999}, "259:1": {78}, "0:49": nil, "": nil} {
		if got := slices.Sorted(maps.Keys(lockedFiles(list, device))); !slices.Equal(got, want) {
			t.Errorf("on %q: %v, want %v", device, got, want)
		}
	}
}
