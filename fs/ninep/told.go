package ninep

import (
	"sync"
	"time"
)

// tellEvery is how often it is told that connections are refused, or lost: a
// client can have that as often as it likes.
const tellEvery = time.Minute

// A told is what is told at once when it comes first, and then once a minute
// with how often it came again, until none came for one.
type told struct {
	say func(err error, more int)

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	more  int   // that were not told yet
	last  error // of these
}

// tell tells of err, now or with others.
func (t *told) tell(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.more++
		t.last = err
		return
	}
	t.timer = time.AfterFunc(tellEvery, t.minute)
	t.say(err, 0)
}

func (t *told) minute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return
	}
	if t.more == 0 {
		t.timer = nil
		return
	}
	t.rest()
	t.timer.Reset(tellEvery)
}

// rest tells of those that were not told.
func (t *told) rest() {
	if t.more > 0 {
		t.say(t.last, t.more)
		t.more = 0
	}
}

// close tells of what is left.
func (t *told) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.rest()
}
