// Package qmp speaks QEMU's machine protocol: JSON objects, a command and its
// answer by turns, with events in between.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxMessage is how many bytes a message of QEMU's may have.
const maxMessage = 4 << 20

// An Event is what QEMU tells of itself.
type Event struct {
	Name string
	Data json.RawMessage
}

// An Error is QEMU's refusal of a command.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *Error) Error() string { return "qemu: " + e.Desc }

// A Conn is a connection to QEMU. Its methods may be called concurrently.
type Conn struct {
	c     *net.UnixConn
	event func(Event)
	done  chan struct{} // closed when nothing is read any more
	err   error         // why; valid after done

	mu   sync.Mutex // guards what follows, and the order of commands
	last uint64
	wait map[uint64]chan message
}

// Dial connects to the QEMU that listens on the socket path, and returns when
// that takes commands. It calls event for each event, one after the other.
func Dial(ctx context.Context, path string, event func(Event)) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	q := &Conn{c: c.(*net.UnixConn), event: event, done: make(chan struct{}), wait: make(map[uint64]chan message)}
	go q.read()
	if err := q.Do(ctx, "qmp_capabilities", nil, nil); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// Close ends the connection. QEMU runs on, and takes the next one.
func (q *Conn) Close() error {
	err := q.c.Close()
	<-q.done
	return err
}

// Done is closed when the connection has ended.
func (q *Conn) Done() <-chan struct{} { return q.done }

// message is anything that QEMU says: an answer, an event, or its greeting.
type message struct {
	ID     *uint64         `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	Event  string          `json:"event"`
	Data   json.RawMessage `json:"data"`
}

func (q *Conn) read() {
	defer close(q.done)
	in := bufio.NewScanner(q.c)
	in.Buffer(nil, maxMessage)
	for in.Scan() {
		m, err := parse(in.Bytes())
		switch {
		case err != nil:
			q.err = err
			q.c.Close()
			return
		case m.Event != "":
			q.event(Event{m.Event, m.Data})
		case m.ID != nil:
			q.mu.Lock()
			answer := q.wait[*m.ID]
			delete(q.wait, *m.ID)
			q.mu.Unlock()
			if answer != nil {
				answer <- m
			}
		}
	}
	q.err = in.Err()
}

func parse(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("qemu says what is not understood: %w", err)
	}
	return m, nil
}

var errGone = errors.New("qemu has ended the connection")

// Do has QEMU do the command name with args, nil for none, and puts what it
// returns into result, unless that is nil. Where ctx ends first, QEMU does it
// all the same.
func (q *Conn) Do(ctx context.Context, name string, args, result any) error {
	return q.do(ctx, name, args, result, nil)
}

// Give passes the open file f to QEMU, which knows it as name from then on.
func (q *Conn) Give(ctx context.Context, name string, f *os.File) error {
	return q.do(ctx, "getfd", map[string]string{"fdname": name}, nil, unix.UnixRights(int(f.Fd())))
}

func (q *Conn) do(ctx context.Context, name string, args, result any, rights []byte) error {
	answer, err := q.ask(name, args, rights)
	if err != nil {
		return err
	}
	select {
	case m := <-answer:
		return m.into(name, result)
	case <-q.done:
		select {
		case m := <-answer: // which QEMU gave before it went
			return m.into(name, result)
		default:
		}
		return fmt.Errorf("%s: %w", name, errors.Join(errGone, q.err))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask sends a command and returns where its answer will be.
func (q *Conn) ask(name string, args any, rights []byte) (chan message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	line, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{name, args, q.last})
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	q.wait[q.last] = answer
	if _, _, err := q.c.WriteMsgUnix(append(line, '\n'), rights, nil); err != nil {
		delete(q.wait, q.last)
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return answer, nil
}

func (m message) into(name string, result any) error {
	switch {
	case m.Error != nil:
		return fmt.Errorf("%s: %w", name, m.Error)
	case result != nil:
		return json.Unmarshal(m.Return, result)
	}
	return nil
}
