package aggd

import (
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/shape"
	"hutch/aggd/wire"
	"hutch/fs"
)

// sound returns the items of a list that the standard allows, each name once, and why
// the others are left out: many clients would refuse the whole list for one of them.
func sound(l *wire.List, items [][]byte, newer bool) (good [][]byte, left []string) {
	seen := make(map[string]bool, len(items))
	for _, raw := range items {
		own, err := text(raw, l.Own), shape.Check(l, raw, newer)
		if err == nil && seen[own] {
			err = fmt.Errorf("its server lists another of that %s before", l.Own)
		}
		if err != nil {
			left = append(left, leftOut(l, own, err))
			continue
		}
		seen[own] = true
		good = append(good, raw)
	}
	return good, left
}

func leftOut(l *wire.List, own string, why error) string {
	return fmt.Sprintf("the %s %q is left out: %v", strings.TrimSuffix(l.Field, "s"), fs.Shorten(own), why)
}

// leave notes what is left out of a list, and logs what is new of that; mu is held.
func (u *upstream) leave(s *cachedList, left []string) {
	if n := len(left); n > maxLeft {
		left = append(left[:maxLeft:maxLeft], fmt.Sprintf("and %d more", n-maxLeft))
	}
	for _, why := range left {
		if !slices.Contains(s.left, why) {
			u.logf("%s", why)
		}
	}
	s.left = left
}
