// Package inotify parses the events that are read from an inotify(7) descriptor.
package inotify

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// An Event is a change of what a watch is of.
type Event struct {
	Watch int32 // its descriptor
	Mask  uint32
	Name  string // of the entry of a directory; "": the directory itself
}

// Events returns the events that a read has put into b.
func Events(b []byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for len(b) >= unix.SizeofInotifyEvent {
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
			e := Event{int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), string(name)}
			if b = b[end:]; !yield(e) {
				return
			}
		}
	}
}
