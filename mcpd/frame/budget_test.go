package frame

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A feed is a connection to a Reader on a budget.
type feed struct {
	*Reader
	t   *testing.T
	in  *io.PipeWriter
	got chan error // of Next
}

func newFeed(t *testing.T, b *Budget) *feed {
	pr, pw := io.Pipe()
	f := &feed{Reader: NewReader(pr), t: t, in: pw, got: make(chan error, 1)}
	f.Ordered = true
	f.Account = b.Open(func() { pr.Close() })
	t.Cleanup(func() {
		f.Account.Close()
		pr.Close()
	})
	return f
}

// next takes one message in the background, and gives it back.
func (f *feed) next() {
	go func() {
		m, err := f.Next()
		if err == nil {
			f.Account.Give(len(m.Payload))
		}
		f.got <- err
	}()
}

func (f *feed) write(b []byte) {
	f.t.Helper()
	if _, err := f.in.Write(b); err != nil {
		f.t.Fatal(err)
	}
}

// await waits until test holds.
func await(t *testing.T, what string, test func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !test(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func (b *Budget) waits(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiters == n
}

// TestBackPressure has a message wait for room, and come when there is.
func TestBackPressure(t *testing.T) {
	b := NewBudget(100)
	b.patience = time.Hour
	holder, waiter := newFeed(t, b), newFeed(t, b)
	go holder.in.Write(part(1, 0, strings.Repeat("x", 80)))
	m, err := holder.Next()
	if err != nil {
		t.Fatal(err)
	}
	waiter.next()
	go waiter.in.Write(part(1, 0, strings.Repeat("y", 30)))
	await(t, "nobody waits", func() bool { return b.waits(1) })
	if b.Used() != 80 {
		t.Errorf("%d bytes held", b.Used())
	}
	holder.Account.Give(len(m.Payload))
	if err := <-waiter.got; err != nil || b.Used() != 0 {
		t.Errorf("%v, %d bytes held", err, b.Used())
	}
}

// TestTwoHalves has two half messages take the whole budget: one is refused,
// and the other comes.
func TestTwoHalves(t *testing.T) {
	b := NewBudget(100)
	b.patience = time.Hour
	var feeds []*feed
	for range 2 {
		f := newFeed(t, b)
		f.next()
		f.write(part(1, More, strings.Repeat("x", 50)))
		feeds = append(feeds, f)
	}
	await(t, "not all held", func() bool { return b.Used() == 100 })
	for _, f := range feeds {
		go f.in.Write(part(1, 0, strings.Repeat("y", 50)))
	}
	full := 0
	for _, f := range feeds {
		err := <-f.got
		var bad *BadFrame
		if errors.As(err, &bad) && bad.Full && bad.Stream == 1 {
			full++
			f.next()
			f.write(part(2, 0, "the connection goes on"))
			err = <-f.got
		}
		if err != nil {
			t.Error(err)
		}
	}
	if full != 1 || b.Used() != 0 {
		t.Errorf("%d refused, %d bytes held", full, b.Used())
	}
}

// TestDropped refuses the first part of a message: the others are nobody's.
func TestDropped(t *testing.T) {
	b := NewBudget(100)
	b.patience = time.Hour
	holder, f := newFeed(t, b), newFeed(t, b)
	holder.next()
	holder.write(part(1, More, strings.Repeat("x", 90)))
	await(t, "not held", func() bool { return b.Used() == 90 })
	go holder.in.Write(part(1, 0, strings.Repeat("x", 11)))
	if err := <-holder.got; err == nil || !strings.Contains(err.Error(), "message too large") {
		t.Fatalf("more than the budget: %v", err)
	}
	holder.next()
	holder.write(part(2, More, strings.Repeat("x", 90)))
	await(t, "not held", func() bool { return b.Used() == 90 })
	b.mu.Lock()
	holder.Account.waiting = true // as if for more
	b.mu.Unlock()
	f.next()
	go func() {
		f.in.Write(part(1, More, strings.Repeat("y", 20)))
		f.in.Write(part(1, More, "more"))
		f.in.Write(part(1, 0, "end"))
		f.in.Write(part(2, 0, "next"))
	}()
	var bad *BadFrame
	if err := <-f.got; !errors.As(err, &bad) || !bad.Full {
		t.Fatalf("got %v", err)
	}
	f.next()
	if err := <-f.got; err != nil || f.last != 2 {
		t.Errorf("%v, last stream %d", err, f.last)
	}
}

// TestStalled has a connection hold what another needs and send no more: it
// is hung up on.
func TestStalled(t *testing.T) {
	b := NewBudget(100)
	b.patience = time.Millisecond
	idle, f := newFeed(t, b), newFeed(t, b)
	idle.next()
	idle.write(part(1, More, strings.Repeat("x", 90)))
	await(t, "not held", func() bool { return b.Used() == 90 })
	f.next()
	go f.in.Write(part(1, 0, strings.Repeat("y", 20)))
	if err := <-f.got; err != nil {
		t.Error(err)
	}
	if err := <-idle.got; err == nil {
		t.Error("it goes on")
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes held", b.Used())
	}
	// What is under way is not the guest's to free.
	go f.in.Write(part(2, 0, strings.Repeat("z", 90)))
	if _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	f.next()
	go f.in.Write(part(3, 0, strings.Repeat("z", 20)))
	var bad *BadFrame
	if err := <-f.got; !errors.As(err, &bad) || !bad.Full {
		t.Errorf("got %v", err)
	}
}

// TestLend lends twice the budget to answers, and no more.
func TestLend(t *testing.T) {
	b := NewBudget(1 << 20)
	c, far := net.Pipe()
	defer c.Close()
	defer far.Close()
	a := b.Open(nil)
	if !a.Lend(2<<20-1) || a.Lend(2) || !a.Lend(1) {
		t.Error("lent another amount than twice the budget")
	}
	a.Read(2 << 20)
	w := NewWriter(c)
	w.Account = a
	note := Frame{Version: 2, Flags: Notification, Payload: make([]byte, 3<<19)}
	if !w.Post(note) {
		t.Error("a large notification is lost")
	}
	a.Lend(1 << 19)
	if w.Post(note) {
		t.Error("another one is held")
	}
	go io.Copy(io.Discard, far)
	w.Flush()
	a.Read(1 << 19)
	if b.Used() != 0 {
		t.Errorf("%d bytes held", b.Used())
	}
}
