// Package quantity reads and writes sizes and times as text. It is the one
// grammar of them: of configs, profiles, control messages and flags.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1},
}

// Size returns the bytes that text says: a whole number and a unit, in
// capitals or not, as 512MiB, 2g or 1048576. MB are millions, as disks have them.
func Size(text string) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(strings.ToLower(text), strings.ToLower(u.name))
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || n > uint64(math.MaxInt64/u.bytes) {
			break
		}
		return int64(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("%.64q is not a size like 512MiB: a whole number of K, KB, KiB to TiB", text)
}

// SizeText is the shortest exact text for n bytes.
func SizeText(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0"
}

// Time returns the time that text says: numbers with units, as 90s, 30m or
// 1h30m. It is not negative.
func Time(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && text != "" && strings.Trim(text, "0123456789.") == "":
		return 0, fmt.Errorf("%.64q is not a time: say a unit, like %.16ss", text, text)
	case err != nil || d < 0:
		return 0, fmt.Errorf("%.64q is not a time like 90s, 30m or 8h", text)
	}
	return d, nil
}

// TimeText is the text for d without the units that it has none of.
func TimeText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Timeout is Time for what a command may take, where timeout(1) has made
// people used to a whole number of seconds without a unit.
func Timeout(text string) (time.Duration, error) {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	return Time(text)
}
