package vmm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
	"hutch/vmm/snapshot"
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

// setRing takes "every=5m keep=10", in any order.
func setRing(c *Config, v string) error {
	r := Ring{Keep: keepSome}
	for _, word := range strings.Fields(v) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "every":
			if r.Every, err = time.ParseDuration(value); err != nil || r.Every < minEvery || r.Every > maxEvery {
				return fmt.Errorf("%w: snap every=%s: want a time from %s to %s, like 5m", fs.ErrInvalid, shorten(value), text(minEvery), text(maxEvery))
			}
		case "keep":
			if r.Keep, err = strconv.Atoi(value); err != nil || r.Keep < 1 || r.Keep > keepMost {
				return fmt.Errorf("%w: snap keep=%s: want a number from 1 to %d", fs.ErrInvalid, shorten(value), keepMost)
			}
		default:
			return fmt.Errorf("%w: snap %q: want every=TIME keep=N", fs.ErrInvalid, shorten(word))
		}
	}
	if r.Every == 0 {
		if v != "" {
			return fmt.Errorf("%w: snap %q does not say every=TIME", fs.ErrInvalid, shorten(v))
		}
		r = Ring{}
	}
	c.Snap = r
	return nil
}

// String returns the text that the config has.
func (r Ring) String() string {
	if r.Every == 0 {
		return ""
	}
	return fmt.Sprintf("every=%s keep=%d", text(r.Every), r.Keep)
}

// text returns d without the parts that are 0.
func text(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// The ring is the owner's: it arms a timer while the VM runs. When that
// fires, the snapshot is taken beside the owner, and the timer armed again.

// arm sets the timer for the next automatic snapshot.
func (v *VM) arm() {
	v.due = nil
	r := v.Config().Snap
	if r.Every == 0 || v.machine == nil {
		return
	}
	last := v.look().Since
	if list, err := v.automatic(); err == nil && len(list) > 0 && list[len(list)-1].Taken.After(last) {
		last = list[len(list)-1].Taken
	}
	v.due = time.After(max(0, min(r.Every, time.Until(last.Add(r.Every)))))
}

// turnRing takes an automatic snapshot and drops those that are too many.
func (v *VM) turnRing() {
	v.due = nil
	keep := v.Config().Snap.Keep
	v.t.background(func() {
		err := v.snap(v.t.life, "auto-"+time.Now().UTC().Format("20060102-150405"), true)
		if !errors.Is(err, fs.ErrExist) && v.life.Err() == nil {
			v.fail(err)
		}
		if err == nil {
			v.fail(v.thin(keep))
		}
		v.do(v.t.life, func() error { v.arm(); return nil })
	})
}

// automatic returns the snapshots of the ring, the oldest first.
func (v *VM) automatic() ([]snapshot.Info, error) {
	all, err := v.snaps.List()
	var list []snapshot.Info
	for _, i := range all {
		if i.Automatic {
			list = append(list, i)
		}
	}
	return list, err
}

// thin drops the oldest snapshots of the ring until there are keep of it. One
// that is being read is left for the next time.
func (v *VM) thin(keep int) error {
	list, err := v.automatic()
	for i := range max(0, len(list)-keep) {
		if derr := v.DropSnapshot(v.t.life, list[i].Name); !errors.Is(derr, fs.ErrBusy) {
			err = errors.Join(err, derr)
		}
	}
	return err
}
