package agent

import (
	"fmt"
	"maps"
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
	dispatch    string   // what wait says, too, for whoever runs many to tell them apart
	scrub       []string // what the names of variables begin with that it does not get
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
	if s.dispatch != "" {
		fmt.Fprintf(&b, "dispatch %s\n", fs.Quote(s.dispatch))
	}
	if len(s.scrub) > 0 {
		fmt.Fprintf(&b, "scrub %s\n", fs.QuoteAll(s.scrub))
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

// checkEnv refuses what no environment can hold.
func checkEnv(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
		return fmt.Errorf("%w: environment variable %q", fs.ErrInvalid, name)
	}
	return nil
}
