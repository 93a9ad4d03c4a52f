package agent

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
)

const (
	defaultLimit = 16 << 20
	minLimit     = 4 << 10
)

// settings are what ctl says of a command before it runs.
type settings struct {
	dir         string
	env         map[string]string
	user        string
	tty         *size
	timeout     time.Duration
	limit       int64
	killOnClose bool
}

// A size is that of a terminal, in characters.
type size struct{ rows, cols uint16 }

// text returns the settings as the control messages that make them.
func (s *settings) text() string {
	var b strings.Builder
	if s.dir != "" {
		fmt.Fprintf(&b, "dir %s\n", fs.Quote(s.dir))
	}
	for _, k := range slices.Sorted(maps.Keys(s.env)) {
		fmt.Fprintf(&b, "env %s %s\n", fs.Quote(k), fs.Quote(s.env[k]))
	}
	if s.user != "" {
		fmt.Fprintf(&b, "user %s\n", fs.Quote(s.user))
	}
	if s.tty != nil {
		fmt.Fprintf(&b, "tty %d %d\n", s.tty.rows, s.tty.cols)
	}
	if s.timeout != 0 {
		fmt.Fprintf(&b, "timeout %s\n", s.timeout)
	}
	fmt.Fprintf(&b, "limit %d\n", s.limit)
	if s.killOnClose {
		b.WriteString("killonclose\n")
	}
	return b.String()
}

func parseSize(rows, cols string) (*size, error) {
	r, rerr := strconv.ParseUint(rows, 10, 16)
	c, cerr := strconv.ParseUint(cols, 10, 16)
	if rerr != nil || cerr != nil || r == 0 || c == 0 {
		return nil, fmt.Errorf("%w: terminal size %q %q", fs.ErrInvalid, rows, cols)
	}
	return &size{uint16(r), uint16(c)}, nil
}

// parseBytes reads a number of bytes: 4096, 64k, 16MiB.
func parseBytes(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGiB")
	shift, ok := map[string]uint{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30,
	}[strings.ToLower(s[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%w: size %q: want a number of bytes, KiB, MiB or GiB", fs.ErrInvalid, s)
	}
	return n << shift, nil
}

func parseTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, nerr := strconv.ParseUint(s, 10, 31); nerr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%w: time %q: want 60s, 5m or 1h30m", fs.ErrInvalid, s)
	}
	return d, nil
}

// checkEnv refuses what no environment can hold.
func checkEnv(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
		return fmt.Errorf("%w: environment variable %q", fs.ErrInvalid, name)
	}
	return nil
}
