package vmm

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
)

// A Config says what machine a VM wants. Its text is key value lines, of which
// the last of a key counts; blank lines and lines that start with # mean
// nothing.
type Config struct {
	Image    string        // "": host
	Profile  string        // "": default
	Driver   string        // "": the first that the table has
	Kernel   string        // the file of a kernel; "": the driver's own
	Hostname string        // "": the VM's name
	RAM      int64         // bytes; 0: no limit
	CPUs     float64       // 0: all
	PIDs     int           // 0: 512
	Disk     int64         // bytes; 0: no limit
	Records  int64         // bytes; 0: 256 MiB
	Idle     time.Duration // 0: none
	TTL      time.Duration // 0: none
	Net      string        // "": none
	Mounts   string        // HOST:GUEST[:ro] …
	Snap     Ring          // automatic snapshots
}

// A Key is a row of the table of config keys.
type Key struct {
	Name string
	Doc  string
	set  func(c *Config, v string) error
	get  func(c *Config) string
}

// Keys are the keys of a config, in the order its text has them.
var Keys = []Key{
	{"image", "the image to start from: a name below images/", setName(func(c *Config) *string { return &c.Image }), func(c *Config) string { return c.Image }},
	{"profile", "the profile, a name below profiles/", setName(func(c *Config) *string { return &c.Profile }), func(c *Config) string { return c.Profile }},
	{"driver", "the driver, a name in drivers", setName(func(c *Config) *string { return &c.Driver }), func(c *Config) string { return c.Driver }},
	{"kernel", "the kernel to boot, a file vmlinuz-RELEASE of this machine; for the driver qemu", setPath(func(c *Config) *string { return &c.Kernel }), func(c *Config) string { return c.Kernel }},
	{"hostname", "the host name that the guest sees", setHostname, func(c *Config) string { return c.Hostname }},
	{"ram", "most memory: 512MiB, 2GiB", setSize("ram", minRAM, func(c *Config) *int64 { return &c.RAM }), func(c *Config) string { return formatSize(c.RAM) }},
	{"cpus", "how many processors the guest has, and their time: 2, 0.5", setCPUs, func(c *Config) string { return formatCPUs(c.CPUs) }},
	{"pids", "most processes and threads of a user in the guest: 512 if not said", setPIDs, func(c *Config) string { return formatCount(c.PIDs) }},
	{"disk", "most that the layer and the workspace may hold together: 10GiB", setSize("disk", minDisk, func(c *Config) *int64 { return &c.Disk }), func(c *Config) string { return formatSize(c.Disk) }},
	{"records", "most that calls, events and logs are kept of: 256MiB if not said", setSize("records", minRecords, func(c *Config) *int64 { return &c.Records }), func(c *Config) string { return formatSize(c.Records) }},
	{"idle", "stop after so long without use: 30m", setTime("idle", func(c *Config) *time.Duration { return &c.Idle }), func(c *Config) string { return formatTime(c.Idle) }},
	{"ttl", "stop after so long: 8h", setTime("ttl", func(c *Config) *time.Duration { return &c.TTL }), func(c *Config) string { return formatTime(c.TTL) }},
	{"net", "the network: none, or host-proxy: HTTP and HTTPS as the profile allows", setNet, func(c *Config) string { return c.Net }},
	{"mount", "folders of the host that the guest sees: HOST:GUEST HOST:GUEST:ro; lines add up", setMounts, func(c *Config) string { return c.Mounts }},
	{"snap", "automatic snapshots while the VM runs: every=5m keep=10", setRing, func(c *Config) string { return c.Snap.String() }},
}

const maxConfig = 64 << 10

// ParseConfig returns the meaning of text. Keys it does not have are unset.
func ParseConfig(text string) (Config, error) {
	var c Config
	if len(text) > maxConfig {
		return c, fmt.Errorf("%w: config has %d bytes, at most %d", fs.ErrTooLong, len(text), maxConfig)
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value := line, ""
		if at := strings.IndexAny(line, " \t"); at >= 0 {
			key, value = line[:at], strings.TrimSpace(line[at:])
		}
		if err := c.set(key, value); err != nil {
			return Config{}, fmt.Errorf("config line %d: %w", i+1, err)
		}
	}
	return c, nil
}

// set gives key the value v; an empty v unsets it.
func (c *Config) set(key, v string) error {
	for i := range Keys {
		if k := &Keys[i]; k.Name == key {
			if strings.ContainsAny(v, "\x00\n\r") {
				return fmt.Errorf("%w: %s has a line end or NUL in it", fs.ErrInvalid, key)
			}
			return k.set(c, v)
		}
	}
	var known []string
	for _, k := range Keys {
		known = append(known, k.Name)
	}
	return fmt.Errorf("%w: unknown key %q: known are %s", fs.ErrInvalid, shorten(key), strings.Join(known, " "))
}

// Text returns the keys that are set, one a line.
func (c Config) Text() string {
	var b bytes.Buffer
	for i := range Keys {
		if v := Keys[i].get(&c); v != "" {
			fmt.Fprintf(&b, "%s %s\n", Keys[i].Name, v)
		}
	}
	return b.String()
}

// defaultMark begins a line that tells what holds of a key which a config does
// not say. Such lines are made for who reads it, and not kept, so that they
// are never of another day.
const defaultMark = "# default: "

// withDefaults returns text, which says said, with what holds beside that.
func withDefaults(text string, said, holds Config) string {
	b := bytes.NewBufferString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	for i := range Keys {
		if k := &Keys[i]; k.get(&said) == "" && k.get(&holds) != "" {
			fmt.Fprintf(b, "%s%s %s\n", defaultMark, k.Name, k.get(&holds))
		}
	}
	return b.String()
}

func withoutDefaults(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, defaultMark) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// lastLine returns the number of the line of text that counts for key.
func lastLine(text, key string) int {
	last := 0
	for i, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] == key {
			last = i + 1
		}
	}
	return last
}

// edit returns text with key's line changed to say v, or with a new last line.
// An empty v takes the line away.
func edit(text, key, v string) string {
	lines := strings.SplitAfter(text, "\n")
	done := v == ""
	var b strings.Builder
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 0 && f[0] == key {
			if !done {
				fmt.Fprintf(&b, "%s %s\n", key, v)
				done = true
			}
			continue
		}
		b.WriteString(line)
	}
	if !done {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s\n", key, v)
	}
	return b.String()
}

func setName(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "" && (v[0] == '.' || len(v) > 255 || strings.ContainsAny(v, "/ \t")) {
			return fmt.Errorf("%w: %q is not a name", fs.ErrInvalid, shorten(v))
		}
		*field(c) = v
		return nil
	}
}

func setPath(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "" && !filepath.IsAbs(v) {
			return fmt.Errorf("%w: %q is not an absolute path", fs.ErrInvalid, shorten(v))
		}
		*field(c) = v
		return nil
	}
}

func setHostname(c *Config, v string) error {
	ok := func(r rune) bool { return nameRune(r) && r != '_' }
	if len(v) > 63 || v != strings.Trim(v, "-.") || strings.IndexFunc(v, func(r rune) bool { return !ok(r) }) >= 0 {
		return fmt.Errorf("%w: %q is not a host name", fs.ErrInvalid, shorten(v))
	}
	c.Hostname = v
	return nil
}

const (
	minCPUs = 0.05
	maxCPUs = 1024
)

func setCPUs(c *Config, v string) error {
	if v == "" {
		c.CPUs = 0
		return nil
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= minCPUs && n <= maxCPUs) || strings.IndexFunc(v, notDecimal) >= 0 {
		return fmt.Errorf("%w: cpus %q is not a number from %v to %v", fs.ErrInvalid, shorten(v), minCPUs, maxCPUs)
	}
	c.CPUs = n
	return nil
}

func notDecimal(r rune) bool { return (r < '0' || r > '9') && r != '.' }

const (
	minPIDs     = 16
	maxPIDs     = 1 << 22
	defaultPIDs = 512
)

func setPIDs(c *Config, v string) error {
	if v == "" {
		c.PIDs = 0
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < minPIDs || n > maxPIDs {
		return fmt.Errorf("%w: pids %q is not a number from %d to %d", fs.ErrInvalid, shorten(v), minPIDs, maxPIDs)
	}
	c.PIDs = n
	return nil
}

const (
	minRAM         = 64 << 20
	minDisk        = 1 << 20
	minRecords     = 4 << 20
	defaultRecords = 256 << 20
)

// setSize sets a field of at least so many bytes. One that is too small for
// want of a unit is told so.
func setSize(key string, least int64, field func(*Config) *int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := parseSize(v)
		switch {
		case err != nil:
			return err
		case v != "" && n < least && strings.Trim(v, "0123456789") == "":
			return fmt.Errorf("%w: %s is too small: %s bytes < %s: say a unit, like 512MiB", fs.ErrInvalid, key, v, formatSize(least))
		case v != "" && n < least:
			return fmt.Errorf("%w: %s is too small: %s < %s", fs.ErrInvalid, key, v, formatSize(least))
		}
		*field(c) = n
		return nil
	}
}

func setTime(key string, field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			*field(c) = 0
			return nil
		}
		d, err := time.ParseDuration(v)
		if err != nil || d < time.Second {
			return fmt.Errorf("%w: %s %q is not a time of a second or more, like 90s, 30m or 8h", fs.ErrInvalid, key, shorten(v))
		}
		*field(c) = d
		return nil
	}
}

var units = []struct {
	name string
	n    int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}}

// parseSize returns the bytes that v says: 512MiB, 2G, 512m, 1048576.
func parseSize(v string) (int64, error) {
	if v == "" {
		return 0, nil
	}
	for _, u := range units {
		num, ok := strings.CutSuffix(strings.ToLower(v), strings.ToLower(u.name))
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(num, 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/u.n {
			break
		}
		return n * u.n, nil
	}
	return 0, fmt.Errorf("%w: %q is not a size like 512MiB: the units are K, M, G, KiB, MiB and GiB", fs.ErrInvalid, shorten(v))
}

// formatSize is the shortest exact text for n bytes, and "" for 0.
func formatSize(n int64) string {
	if n == 0 {
		return ""
	}
	for _, u := range units {
		if n%u.n == 0 {
			return strconv.FormatInt(n/u.n, 10) + u.name
		}
	}
	return ""
}

func formatCPUs(n float64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// formatTime is the text for d without the units that it has none of, and ""
// for 0.
func formatTime(d time.Duration) string {
	if d == 0 {
		return ""
	}
	s := d.String()
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return s
}

func formatCount(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
