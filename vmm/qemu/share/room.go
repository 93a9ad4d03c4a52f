package share

import (
	"fmt"
	"sync"
	"syscall"

	"hutch/fs"
)

// A room is how many files all guests may have open, since each takes a
// descriptor of this process.
type room struct {
	most int

	mu   sync.Mutex // guards what follows, and what each guest has open
	open int
}

// descriptors are this process', of which guests may have a quarter here.
var descriptors = room{most: int(min(fs.Descriptors()/4, 1<<18))}

// enter counts a file in that the guest opens. There is room for it while the
// guest has less than is left, so that there is always some for the next.
func (s *Share) enter() (leave func(), err error) {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.opened >= r.most-r.open {
		return nil, fmt.Errorf("%w: the guest has %d files of its folders open", syscall.ENFILE, s.opened)
	}
	s.opened++
	r.open++
	return s.leave, nil
}

// leave counts one out.
func (s *Share) leave() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.opened--
	s.room.open--
}
