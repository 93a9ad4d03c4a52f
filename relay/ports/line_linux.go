package ports

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/relay/boot"
	"hutch/relay/line"
)

// openLine opens the serial port to the host.
func openLine() (*line.Guest, error) {
	paths, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, path := range paths {
		name, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(name)) != "hutch" {
			continue
		}
		// Go waits for what cannot be done at once; a write that is told to
		// wait itself would hold its processor until the host has it.
		f, err := os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(path))), os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		return line.NewGuest(f, told), nil
	}
	return nil, errNoLine
}

// readClock sets the guest's clock by its hardware's, which is the host's
// time to the second, also in a machine that goes on. It is for machines
// whose host does not tell the time.
func readClock() {
	text, err := os.ReadFile("/sys/class/rtc/rtc0/since_epoch")
	if err != nil {
		return
	}
	if s, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
		setClock(time.Unix(s, int64(time.Second/2))) // of a second that may have just begun or be about to end
	}
}

const maxSkew = time.Second // between the guest's clock and its hardware's

// setClock sets the guest's clock, unless it is right: a machine that goes on
// from what was saved of it has that time.
func setClock(now time.Time) {
	if d := time.Since(now); d.Abs() > maxSkew {
		tv := unix.NsecToTimeval(now.UnixNano())
		unix.Settimeofday(&tv)
	}
}

// told takes what the host says at the begin of a session: which may be long
// ago, when the machine had not booted yet or its memory was still being read.
func told(now time.Time) { boot.Told(now) }
