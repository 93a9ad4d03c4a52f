package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"hutch/fs"
)

var (
	errEnding    = fmt.Errorf("%w: hutchd is ending", fs.ErrInterrupted)
	errCancelled = fmt.Errorf("%w: cancelled", fs.ErrInterrupted)
)

// A job fills an image. It goes on when nobody waits for it any more.
type job struct {
	name, verb, source string // verb as in "being pulled"
	began              time.Time
	cancel             context.CancelCauseFunc
	done               chan struct{}
	err                error // valid after done
	progress
}

// A progress is how far a job has come.
type progress struct {
	layers, layersDone atomic.Int64
	bytes, bytesDone   atomic.Int64 // as they come in, packed
}

func (j *job) busy() error {
	return fmt.Errorf("%w: image %q is being %s", fs.ErrBusy, j.name, j.verb)
}

// Pull fills the empty image called name from a registry. When ctx ends, the
// pull goes on.
func (s *Store) Pull(ctx context.Context, name, ref string) error {
	r, err := parseReference(ref)
	if err != nil {
		return err
	}
	j, err := s.beginPull(name, r)
	if err != nil {
		return err
	}
	return j.wait(ctx)
}

func (s *Store) beginPull(name string, r name.Reference) (*job, error) {
	return s.fill(name, "pulled", r.Name(), func(ctx context.Context, j *job) (record, string, error) {
		return s.pull(ctx, j, r)
	})
}

// Import fills the empty image called name from a folder or file of this
// machine. When ctx ends, the import goes on.
func (s *Store) Import(ctx context.Context, name, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%w: path %q is not absolute", fs.ErrInvalid, path)
	}
	path = filepath.Clean(path)
	j, err := s.fill(name, "imported", path, func(ctx context.Context, j *job) (record, string, error) {
		return s.load(ctx, j, path)
	})
	if err != nil {
		return err
	}
	return j.wait(ctx)
}

// fill has work make the image's files. Work returns what the image is, and the
// folder that holds its files.
func (s *Store) fill(name, verb, source string, work func(context.Context, *job) (record, string, error)) (*job, error) {
	life, cancel := context.WithCancelCause(s.life)
	j := &job{name: name, verb: verb, source: source, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	if err := s.begin(j); err != nil {
		cancel(nil)
		return nil, err
	}
	s.tasks.Go(func() {
		defer cancel(nil)
		r, root, err := work(life, j)
		if err != nil && life.Err() != nil {
			err = context.Cause(life)
		}
		s.finish(j, r, root, err)
	})
	return j, nil
}

func (j *job) wait(ctx context.Context) error {
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin enters j, if its image may be filled.
func (s *Store) begin(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.name == Host {
		return fmt.Errorf("%w: image host is this machine: it cannot be %s", fs.ErrNotPermitted, j.verb)
	}
	img, err := s.look(j.name)
	switch {
	case err != nil:
		return err
	case s.closed:
		return errEnding
	case s.jobs[j.name] != nil:
		return s.jobs[j.name].busy()
	case img.record.State == ready:
		return fmt.Errorf("%w: image %q has its files: make another", fs.ErrExist, j.name)
	}
	interrupted := record{State: failed, Reason: "hutchd ended while it was being " + j.verb, Since: j.began, Source: j.source}
	if err := interrupted.save(s.path(j.name)); err != nil {
		return err
	}
	s.jobs[j.name] = j
	return nil
}

// finish gives j's image its files, or says why it has none.
func (s *Store) finish(j *job, r record, root string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := filepath.Join(s.path(j.name), "rootfs")
	if err == nil {
		err = os.Rename(root, to)
	}
	r.State, r.Since, r.Source = ready, time.Now(), j.source
	if err == nil {
		if err = r.save(s.path(j.name)); err != nil {
			s.discard(to)
		}
	}
	if root != "" {
		s.discard(filepath.Dir(root))
	}
	if err != nil {
		if !errors.Is(err, errCancelled) && !errors.Is(err, errEnding) {
			err = fmt.Errorf("image %q is not %s: %w", j.name, j.verb, err)
		}
		record{State: failed, Reason: fs.Text(err), Since: time.Now(), Source: j.source, Layers: r.Layers}.save(s.path(j.name))
	}
	j.err = err
	delete(s.jobs, j.name)
	close(j.done)
	s.dropLayers()
}

// Cancel ends the pull or import of the image called name, and returns when
// it has ended.
func (s *Store) Cancel(ctx context.Context, name string) error {
	s.mu.Lock()
	j := s.jobs[name]
	s.mu.Unlock()
	if j == nil {
		return fmt.Errorf("%w: image %q is not being pulled or imported", fs.ErrBusy, name)
	}
	j.cancel(errCancelled)
	if err := j.wait(ctx); ctx.Err() != nil {
		return err
	}
	return nil
}

// Status returns the image's state on a line, then key value lines.
func (s *Store) Status(name string) (string, error) {
	if name == Host {
		return ready + "\n", nil
	}
	s.mu.Lock()
	j := s.jobs[name]
	s.mu.Unlock()
	if j != nil {
		return j.status(), nil
	}
	img, err := s.look(name)
	if err != nil {
		return "", err
	}
	r := img.record
	var b strings.Builder
	fmt.Fprintln(&b, r.State)
	if r.Reason != "" {
		fmt.Fprintf(&b, "reason %s\n", plain(strings.ReplaceAll(r.Reason, "\n", "; ")))
	}
	if !r.Since.IsZero() {
		fmt.Fprintf(&b, "since %s\n", r.Since.UTC().Format(time.RFC3339))
	}
	if r.Source != "" {
		fmt.Fprintf(&b, "source %s\n", plain(r.Source))
	}
	return b.String(), nil
}

func (j *job) status() string {
	var b strings.Builder
	fmt.Fprintf(&b, "being %s\nsince %s\nsource %s\n", j.verb, j.began.UTC().Format(time.RFC3339), plain(j.source))
	if n := j.layers.Load(); n > 0 {
		fmt.Fprintf(&b, "layers %d of %d\n", j.layersDone.Load(), n)
	}
	if n := j.bytesDone.Load(); n > 0 {
		fmt.Fprintf(&b, "bytes %d", n)
		if all := j.bytes.Load(); all > 0 {
			fmt.Fprintf(&b, " of %d", all)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
