package profiles

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// A size is a number of bytes, written as "512MiB".
type size string

var units = []struct {
	name string
	n    int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}}

func (s size) bytes(at key) (int64, error) {
	if s == "" {
		return 0, nil
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(strings.ToLower(string(s)), strings.ToLower(u.name))
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/u.n || digits[0] == '+' {
			break
		}
		return n * u.n, nil
	}
	return 0, at.faultf(`%q is no size: write one like "512MiB" or "2GiB"`, shorten(string(s)))
}

// A duration is a positive time, written as "30s".
type duration string

func (d duration) time(at key) (time.Duration, error) {
	if d == "" {
		return 0, nil
	}
	v, err := time.ParseDuration(string(d))
	if err != nil || v <= 0 {
		return 0, at.faultf(`%q is no time: write one like "30s" or "5m"`, shorten(string(d)))
	}
	return v, nil
}

// shorten returns s for an error's text.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
