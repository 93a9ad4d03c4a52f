package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"golang.org/x/time/rate"

	"hutch/aggd/wire"
)

// A service is one aggregator's connection.
type service struct {
	host  *Host
	to    *wire.Socket
	tasks sync.WaitGroup // that see to programs

	mu       sync.Mutex // guards what follows
	programs map[uint64]*running
}

// serve does what the lines of in say, until they end or are none.
func (s *service) serve(ctx context.Context, in *wire.Reader) {
	starts := rate.NewLimiter(startRate, startBurst)
	for {
		line, err := in.Read()
		if err != nil {
			return
		}
		var o order
		if json.Unmarshal(line, &o) != nil {
			return // it is not ours any more
		}
		if o.Stop {
			s.stop(o.ID)
			continue
		}
		if starts.Wait(ctx) != nil {
			return
		}
		if err := s.start(o); err != nil {
			s.to.Send(notice{ID: o.ID, Refused: err.Error()})
		}
	}
}

// start starts the program of a key, hands over its pipes and sees to its end.
func (s *service) start(o order) error {
	d, ok := s.host.lookup(o.Start)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("start: the program is not defined any more")
	case s.programs[o.ID] != nil:
		return fmt.Errorf("start: program %d runs already", o.ID)
	case len(s.programs) >= maxPrograms:
		return fmt.Errorf("start: more than %d programs at once", maxPrograms)
	}
	r, pipes, err := startProgram(d, s.host.log)
	if err != nil {
		return err
	}
	s.programs[o.ID] = r
	s.host.note(r, true)
	s.tasks.Go(func() {
		<-r.p.Exited()
		s.host.note(r, false)
		s.mu.Lock()
		delete(s.programs, o.ID)
		s.mu.Unlock()
		s.to.Send(notice{ID: o.ID, Ended: r.how, Words: r.said.last()})
	})
	err = s.to.Send(notice{ID: o.ID, Started: true}, int(pipes[0].Fd()), int(pipes[1].Fd()))
	closeAll(pipes[:])
	if err != nil {
		s.tasks.Go(r.stop)
	}
	return nil
}

func (s *service) stop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.programs[id]; r != nil {
		s.tasks.Go(r.stop)
	}
}

// end ends all programs and waits.
func (s *service) end() {
	s.mu.Lock()
	for _, r := range s.programs {
		s.tasks.Go(r.stop)
	}
	s.mu.Unlock()
	s.tasks.Wait()
}

func (h *Host) lookup(key string) (definition, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.defined[key]
	return d, ok
}

// note notes whether a program runs.
func (h *Host) note(r *running, runs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if runs {
		h.running[r] = struct{}{}
	} else {
		delete(h.running, r)
	}
}

func closeAll[C io.Closer](files []C) {
	for _, f := range files {
		f.Close()
	}
}
