package profiles

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"hutch/fs/quantity"
)

// A Ring says how often a running VM has a snapshot taken by itself, and how
// many of these are kept. Those that were asked for by name are not of it.
type Ring struct {
	Every time.Duration // 0: none are taken
	Keep  int
}

const (
	minEvery = time.Second
	maxEvery = 1000 * time.Hour
	keepMost = 1000
	keepSome = 10 // if not said
)

// Set takes "every=5m keep=10", in any order.
func (r *Ring) Set(v string) error {
	*r = Ring{Keep: keepSome}
	for _, word := range strings.Fields(v) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "every":
			if r.Every, err = quantity.Time(value); err != nil || r.Every < minEvery || r.Every > maxEvery {
				return fmt.Errorf("every=%.64s: want a time from %s to %s, like 5m", value, quantity.TimeText(minEvery), quantity.TimeText(maxEvery))
			}
		case "keep":
			if r.Keep, err = strconv.Atoi(value); err != nil || r.Keep < 1 || r.Keep > keepMost {
				return fmt.Errorf("keep=%.64s: want a number from 1 to %d", value, keepMost)
			}
		default:
			return fmt.Errorf("%.64q: want every=TIME keep=N", word)
		}
	}
	if r.Every == 0 {
		return fmt.Errorf("%.64q does not say every=TIME", v)
	}
	return nil
}

// String returns what Set takes.
func (r Ring) String() string {
	return fmt.Sprintf("every=%s keep=%d", quantity.TimeText(r.Every), r.Keep)
}
