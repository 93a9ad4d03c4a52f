package boot

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// Told has the machine's clock be no earlier than now, which the host said
// some time ago. Whether a clock that is later is wrong, that does not tell.
func Told(now time.Time) error {
	if time.Until(now) <= 0 {
		return nil
	}
	return setClock(now)
}

// maxAhead is how much later the clock may be than what the host has just said
// it is: nothing takes so long to come.
const maxAhead = 10 * time.Second

// SetClock sets the machine's clock by what the host has just said it is. That
// took its time to come, so a clock that is somewhat later is the better one.
func (*Machine) SetClock(now time.Time) error {
	if time.Since(now) > maxAhead {
		return setClock(now)
	}
	return Told(now)
}

func setClock(now time.Time) error {
	ts := unix.NsecToTimespec(now.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	return nil
}

// SetHostname gives the machine a host name.
func (*Machine) SetHostname(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("%w: host name %q: %w", fs.ErrInvalid, name, err)
	}
	return nil
}
