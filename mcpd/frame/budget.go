package frame

import (
	"errors"
	"sync"
	"time"
)

// A Budget is how many bytes the connections of one guest may have pending,
// together: of messages that have begun to come and are not done with, and as
// many again of answers that are not read. While there is no room, nothing
// more is read. That ends by itself when what is under way is done. It does not
// when all that is held are messages that wait for more room themselves: then
// one of them is refused. Nor may it for long: when nothing was done for a while,
// whoever holds the most, and neither goes on with what he sends nor reads what
// he is sent, is hung up on; and if there is nobody like that, who waits is refused.
type Budget struct {
	patience time.Duration

	mu       sync.Mutex // guards what follows, and the fields of Accounts that say so
	most     int
	used     int
	waiters  int
	given    chan struct{} // closed when there is more room and somebody waits
	accounts map[*Account]struct{}
}

// patience is how long a message waits while nothing gets done.
const patience = 5 * time.Second

// Errors of a message for which there is no room.
var (
	// ErrFull is returned for a message that would wait for ever.
	ErrFull = errors.New("too much pending: end or read what is under way")
	// ErrStalled is why a connection is hung up on that holds what others wait for.
	ErrStalled = errors.New("too much pending on a connection where nothing moves")
)

// NewBudget returns a Budget of so many bytes.
func NewBudget(most int) *Budget {
	return &Budget{patience: patience, most: most, given: make(chan struct{}), accounts: make(map[*Account]struct{})}
}

// Set changes how many bytes there are, from now on.
func (b *Budget) Set(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
	b.tell()
}

// Used returns how many bytes are held.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// tell has those who wait look again. It is called with mu held.
func (b *Budget) tell() {
	if b.waiters == 0 {
		return
	}
	close(b.given)
	b.given = make(chan struct{})
}

// An Account is one connection's part of a Budget. A nil one has no limit.
type Account struct {
	b      *Budget
	hangUp func()

	// b.mu guards what follows.
	coming  int // of used: bytes of messages that are not whole
	unread  int // of used: bytes of answers
	waiting bool
	closed  bool
}

// Open returns an Account. HangUp ends its connection; it must not wait.
func (b *Budget) Open(hangUp func()) *Account {
	a := &Account{b: b, hangUp: hangUp}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts[a] = struct{}{}
	return a
}

// Close has nobody wait for room any more. What is held stays so until it is
// given back, but for what was coming.
func (a *Account) Close() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.end()
}

// end is Close with b.mu held.
func (a *Account) end() {
	if a.closed {
		return
	}
	a.closed = true
	delete(a.b.accounts, a)
	a.b.used -= a.coming
	a.coming = 0
	a.b.tell()
}

// most returns the longest message that there may be.
func (a *Account) most() int {
	if a == nil {
		return MaxMessage
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return min(MaxMessage, a.b.most)
}

// take waits for room for n bytes that are about to come.
func (a *Account) take(n int) error {
	if a == nil {
		return nil
	}
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := a.wait(n); err != nil {
		return err
	}
	b.used += n
	a.coming += n
	return nil
}

// wait waits for room. It is called with b.mu held, and lets go of it.
func (a *Account) wait(n int) error {
	b := a.b
	if !a.closed && b.used+n <= b.most {
		return nil
	}
	a.waiting = true
	b.waiters++
	defer func() {
		a.waiting = false
		b.waiters--
	}()
	limit := time.NewTimer(b.patience)
	defer limit.Stop()
	for {
		switch {
		case a.closed:
			return ErrClosed
		case b.used+n <= b.most:
			return nil
		case b.stuck():
			return ErrFull
		}
		given, late := b.given, false
		b.mu.Unlock()
		select {
		case <-given:
			limit.Reset(b.patience)
		case <-limit.C:
			late = true
		}
		b.mu.Lock()
		if late && given == b.given { // nothing has moved
			idle := b.idle()
			if idle == nil {
				return ErrFull
			}
			idle.end()
			idle.hangUp()
			limit.Reset(b.patience)
		}
	}
}

// stuck says whether all that is held belongs to messages that wait.
func (b *Budget) stuck() bool {
	n := 0
	for a := range b.accounts {
		if a.waiting {
			n += a.coming
		}
	}
	return n == b.used
}

// idle returns the connection that holds the most of what only its guest can
// free, nil if there is none.
func (b *Budget) idle() *Account {
	var most *Account
	for a := range b.accounts {
		if n := a.coming + a.unread; !a.waiting && n > 0 && (most == nil || n > most.coming+most.unread) {
			most = a
		}
	}
	return most
}

// came notes that n bytes are of a whole message now. They are held until Give.
func (a *Account) came(n int) {
	if a == nil {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.closed { // and so were given back
		a.b.used += n
		return
	}
	a.coming -= n
}

// drop gives back what was coming.
func (a *Account) drop(n int) {
	if a == nil || n == 0 {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.closed {
		return
	}
	a.coming -= n
	a.b.used -= n
	a.b.tell()
}

// Give gives back the n bytes of a message that Next has returned.
func (a *Account) Give(n int) {
	if a == nil || n == 0 {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.b.used -= n
	a.b.tell()
}

// Lend holds an answer of n bytes, if there is room: it is there already, and
// so does not wait. Read gives them back.
func (a *Account) Lend(n int) bool {
	if a == nil {
		return true
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.b.used+n > 2*a.b.most {
		return false
	}
	a.b.used += n
	a.unread += n
	return true
}

// Read gives back n bytes that Lend has held.
func (a *Account) Read(n int) {
	if a == nil || n == 0 {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.b.used -= n
	a.unread -= n
	a.b.tell()
}

// lendLarge is Lend for a message that is more than a Writer holds anyway.
func (a *Account) lendLarge(n int) bool { return n <= held || a.Lend(n) }
