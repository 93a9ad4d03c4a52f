package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hutch/fs"
)

// A source is read anew when it is asked for and was read before that.
const (
	fresh = time.Hour
	again = time.Minute // of a file, and after what could not be read
)

// Refresh reads every source anew, and returns when that is done. Who gives up
// waiting does not end it. What could not be read keeps the entries it had.
func (s *Store) Refresh(ctx context.Context) error {
	s.mu.Lock()
	sources := slices.Clone(s.sources[1:])
	s.mu.Unlock()
	errs := make([]error, len(sources))
	var all sync.WaitGroup
	for i, src := range sources {
		all.Go(func() { errs[i] = s.refresh(ctx, src) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// refresh reads a source anew. What began before may have missed what is new, and
// is waited for; but a source that has just not answered in time is not asked again.
func (s *Store) refresh(ctx context.Context, src *source) error {
	before := src.under(s)
	if err := s.wait(ctx, before); err != nil {
		return err
	}
	if err := s.failure(src); before == nil || !fs.Is(err, fs.ErrTimedOut) {
		s.mu.Lock()
		done := s.begin(src)
		s.mu.Unlock()
		if err := s.wait(ctx, done); err != nil {
			return err
		}
	}
	if err := s.failure(src); err != nil {
		return fmt.Errorf("registry %s: %w", src.shown(), err)
	}
	return nil
}

// failure returns why a source could not be read; nil if it is set no more.
func (s *Store) failure(src *source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.sources, src) {
		return nil
	}
	return src.err
}

// under returns what is closed when the reading under way ends, or nil.
func (src *source) under(s *Store) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return src.reading
}

func (s *Store) wait(ctx context.Context, done chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// due says whether the source is to be read again.
func (src *source) due(now time.Time) bool {
	last, limit := src.tried, fresh
	if src.kept != nil && last.IsZero() {
		last = src.kept.Read
	}
	if src.Kind == "file" || src.err != nil {
		limit = again
	}
	return now.Sub(last) > limit || last.After(now)
}

// begin reads a source in the background, unless that is under way, and returns
// what is closed when it ends; nil when the source is set no more or the store is
// closed. Its caller holds s.mu.
func (s *Store) begin(src *source) chan struct{} {
	if src.reading != nil || s.closed || !slices.Contains(s.sources, src) {
		return src.reading
	}
	s.load(src)
	done := make(chan struct{})
	src.reading = done
	s.jobs.Go(func() {
		var k *kept
		sh, err := s.fetcher.read(s.ctx, src.Origin)
		if err == nil {
			k = &kept{src.String(), s.now(), *sh}
			s.keep(src.Origin, k)
		}
		s.finish(src, k, err)
		close(done)
	})
	return done
}

// finish takes what a reading came to.
func (s *Store) finish(src *source, k *kept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src.reading, src.tried, src.err = nil, s.now(), err
	if err == nil {
		src.kept, s.index = k, nil
	}
	if s.find(src.Origin) < 0 {
		s.prune()
	}
}
