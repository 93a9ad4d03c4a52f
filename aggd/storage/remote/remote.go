// Package remote is hutchd's side of storage that is reached over the network: it
// runs the process that has the network and the key, and asks it. That is the one
// who speaks to the server; no byte of a server's protocol is parsed here.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"hutch/aggd/process"
	"hutch/aggd/storage"
	"hutch/aggd/wire"
	"hutch/fs"
)

// Config says what to run and who is told.
type Config struct {
	Path   string // the program locald
	Bucket storage.Bucket
	Log    io.Writer   // the process's standard error
	Down   func(error) // is told that it died or could not be started
}

// A Storage is one whose process is kept running.
type Storage struct {
	cfg    Config
	cancel context.CancelFunc
	done   chan struct{}
	turns  chan struct{} // full while as many ask as may

	mu      sync.Mutex // guards what follows
	to      *to        // nil while no process runs
	change  chan struct{}
	cause   error // why it is nil
	closed  bool
	last    uint64
	waiting map[uint64]chan storage.Reply
}

var _ storage.Storage = (*Storage)(nil)

var (
	errClosed = fmt.Errorf("%w: the storage is closed", fs.ErrIO)
	errDied   = fmt.Errorf("%w: the storage's process died", fs.ErrIO)
)

// Start starts the process, which ends with Close. It succeeds even where there
// is no program to run: calls are told so then.
func Start(cfg Config) *Storage {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Storage{
		cfg: cfg, cancel: cancel, done: make(chan struct{}), change: make(chan struct{}),
		turns: make(chan struct{}, storage.MaxRequests), waiting: map[uint64]chan storage.Reply{},
	}
	go func() {
		defer close(s.done)
		process.Keep(ctx, s.once, cfg.Down)
	}()
	return s
}

// Bucket returns what the storage was started with.
func (s *Storage) Bucket() storage.Bucket { return s.cfg.Bucket }

// PID returns the id of the process that runs, 0 while there is none.
func (s *Storage) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		return 0
	}
	return s.to.pid
}

// Close ends the process, and all calls.
func (s *Storage) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	<-s.done
}

// once runs one process and returns why it ended.
func (s *Storage) once(ctx context.Context) error {
	var ended string
	p, err := process.Start(process.Config{
		Path: s.cfg.Path, Args: []string{"storage"}, Confined: true, Log: s.cfg.Log,
		Read: s.read, Gone: func(how string) { ended = how },
	})
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: the storage's program is missing", fs.ErrNotExist)
		}
		s.set(nil, err)
		return err
	}
	to := &to{pipe: p.In, pid: p.PID()}
	if err := to.send(s.cfg.Bucket); err == nil {
		s.set(to, nil)
	}
	select {
	case <-p.Exited():
		err = fmt.Errorf("%w (%s)", errDied, ended)
	case <-ctx.Done():
		err = errClosed
	}
	s.set(nil, err)
	p.In.Close()
	p.End()
	return err
}

// set says which process takes requests, or why none does. What the one before
// has not answered it never will.
func (s *Storage) set(to *to, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.cause = to, cause
	for id, c := range s.waiting {
		close(c)
		delete(s.waiting, id)
	}
	close(s.change)
	s.change = make(chan struct{})
}

// read reads what the process answers.
func (s *Storage) read(out io.Reader) {
	lines := wire.NewReader(out, storage.MaxLine)
	for {
		line, err := lines.Read()
		var r storage.Reply
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
			io.Copy(io.Discard, out) // of one that says what it should not
			return
		}
		s.mu.Lock()
		if c, ok := s.waiting[r.ID]; ok {
			c <- r
			delete(s.waiting, r.ID)
		}
		s.mu.Unlock()
	}
}

// to is the standard input of a process.
type to struct {
	pid  int
	mu   sync.Mutex // one line at a time
	pipe io.WriteCloser
}

// sendTime is how long a process may take to read a line.
const sendTime = 10 * time.Second

// send sends a line. A process that does not take it is of no more use.
func (t *to) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.pipe.(interface{ SetWriteDeadline(time.Time) error }); ok {
		f.SetWriteDeadline(time.Now().Add(sendTime))
	}
	if _, err := t.pipe.Write(append(line, '\n')); err != nil {
		t.pipe.Close()
		return errDied
	}
	return nil
}

// look is for process.Await.
func (s *Storage) look() (over bool, change <-chan struct{}, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true, nil, errClosed
	}
	return s.to != nil, s.change, s.cause
}

// ask has the process do what r says.
func (s *Storage) ask(ctx context.Context, r storage.Request) (storage.Reply, error) {
	reply, err := s.await(ctx, r)
	if err == nil && reply.Error != "" {
		err = errorOf(reply.Error)
	}
	if err != nil {
		return reply, fmt.Errorf("path %q: %w", r.Name, err)
	}
	return reply, nil
}

// answerTime is how much longer than its server the process may take, before it
// is given up.
const answerTime = 5 * time.Second

var errLate = fmt.Errorf("%w: the storage does not answer", fs.ErrIO)

func (s *Storage) await(ctx context.Context, r storage.Request) (reply storage.Reply, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, storage.Patience+answerTime, errLate)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return reply, context.Cause(ctx)
	}
	late, end := context.WithTimeout(ctx, process.Patience)
	defer end()
	if err := process.Await(ctx, late.Done(), s.look); err != nil {
		return reply, err
	}
	answer := make(chan storage.Reply, 1)
	s.mu.Lock()
	to := s.to
	if to == nil {
		s.mu.Unlock()
		return reply, errDied
	}
	s.last++
	r.ID = s.last
	s.waiting[r.ID] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, r.ID)
		s.mu.Unlock()
	}()
	if err := to.send(r); err != nil {
		return reply, err
	}
	select {
	case reply, ok := <-answer:
		if !ok {
			return reply, errDied
		}
		return reply, nil
	case <-ctx.Done():
		return reply, context.Cause(ctx)
	}
}

// errorOf returns the error that a process told, the system's where it is one.
func errorOf(text string) error {
	for _, err := range []error{
		syscall.ENOENT, syscall.EEXIST, syscall.EISDIR, syscall.ENOTDIR, syscall.EINVAL, syscall.ENAMETOOLONG,
	} {
		if err.Error() == text {
			return err
		}
	}
	return errors.New(text)
}

// Read is storage.Storage's, as are all that follow.
func (s *Storage) Read(ctx context.Context, name string, off, n int64) ([]byte, storage.Info, error) {
	r, err := s.ask(ctx, storage.Request{Method: "read", Name: name, Off: off, N: n})
	if int64(len(r.Data)) > n {
		r.Data = r.Data[:n]
	}
	return r.Data, r.Info, err
}

func (s *Storage) Write(ctx context.Context, name string, data []byte, how storage.How) error {
	_, err := s.ask(ctx, storage.Request{Method: "write", Name: name, Data: data, How: how})
	return err
}

func (s *Storage) Replace(ctx context.Context, name string, data []byte, was storage.Info) error {
	_, err := s.ask(ctx, storage.Request{Method: "replace", Name: name, Data: data, Was: was})
	return err
}

func (s *Storage) Stat(ctx context.Context, name string) (storage.Info, error) {
	r, err := s.ask(ctx, storage.Request{Method: "stat", Name: name})
	return r.Info, err
}

func (s *Storage) List(ctx context.Context, name string, most int) (list []storage.Info, more bool, err error) {
	r, err := s.ask(ctx, storage.Request{Method: "list", Name: name, N: int64(most)})
	return r.List, r.More, err
}

func (s *Storage) Remove(ctx context.Context, name string) error {
	_, err := s.ask(ctx, storage.Request{Method: "remove", Name: name})
	return err
}
