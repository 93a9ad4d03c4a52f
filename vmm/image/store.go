package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hutch/fs"
	"hutch/vmm/replica"
)

// A Store is a folder of images.
type Store struct {
	// Admit says why no image may be made of a folder or a file; nil: any may.
	Admit func(dir string) error

	dir   string
	life  context.Context // ends with the store
	end   context.CancelFunc
	tasks sync.WaitGroup // jobs, and removals in the background

	maxBytes, maxEntries int64         // what one image may have
	stall                time.Duration // how long a registry may send nothing

	hostMu  sync.Mutex // held while the machine's image is brought up to date
	fetchMu sync.Mutex // held while an image is found, or made, for a reference

	mu     sync.Mutex // guards jobs and closed; held while images and layers come and go
	jobs   map[string]*job
	closed bool
}

// Open returns the images below dir, which need not be there yet. What an
// earlier process had half done is swept away.
func Open(dir string) *Store {
	s := &Store{dir: dir, jobs: make(map[string]*job), maxBytes: maxBytes, maxEntries: maxEntries, stall: stallLimit}
	s.life, s.end = context.WithCancel(context.Background())
	// Programs that an image has setuid are not for users of the host. That
	// this fails is told when something is to be made there.
	os.MkdirAll(dir, 0o700)
	os.Chmod(dir, 0o700)
	s.sweep()
	return s
}

// Close ends what is under way and waits for it.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	for _, j := range s.jobs {
		j.cancel(errEnding)
	}
	s.mu.Unlock()
	s.end()
	s.tasks.Wait()
}

// Dir returns the folder that the images are in.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// List returns the names of the images, sorted, those without files too.
func (s *Store) List() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	names := []string{Host}
	for _, e := range entries {
		if e.Name() != Host && s.Has(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Has says whether there is an image called name, with files or without.
func (s *Store) Has(name string) bool {
	return name == Host || fs.CheckName(name) == nil && name[0] != '.' && (exists(filepath.Join(s.path(name), recordName)) || isDir(filepath.Join(s.path(name), "rootfs")))
}

// Lookup returns the image called name, ready to start from. The host's is
// brought up to date with the machine first.
func (s *Store) Lookup(name string) (Image, error) {
	if name == Host {
		s.hostMu.Lock()
		defer s.hostMu.Unlock()
		img, err := host(filepath.Join(s.path(name), "rootfs"))
		if err == nil {
			img.equip()
		}
		return img, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.look(name)
	switch {
	case err != nil:
		return Image{}, err
	case s.jobs[name] != nil:
		return Image{}, s.jobs[name].busy()
	case img.record.State == failed:
		return Image{}, fmt.Errorf("%w: image %q has no files: %s", fs.ErrNotExist, name, img.record.Reason)
	case img.record.State != ready:
		return Image{}, fmt.Errorf("%w: image %q has no files yet: pull or import some", fs.ErrNotExist, name)
	}
	img.equip()
	return img, nil
}

// look returns the image called name, ready or not.
func (s *Store) look(name string) (Image, error) {
	if fs.CheckName(name) != nil || name[0] == '.' {
		return Image{}, fmt.Errorf("%w: image %q", fs.ErrNotExist, name)
	}
	r, err := load(s.path(name))
	if err != nil {
		return Image{}, err
	}
	return Image{Name: name, Kind: r.Kind, Source: r.Source, Root: filepath.Join(s.path(name), "rootfs"), Env: r.Env, record: r}, nil
}

// Info returns what is known of the image called name.
func (s *Store) Info(name string) (string, error) {
	if name == Host {
		img, err := s.Lookup(name)
		return img.Info(), err
	}
	img, err := s.look(name)
	if err == nil && img.record.State != ready {
		img.Root = ""
	}
	return img.Info(), err
}

// Make makes the image called name, without files.
func (s *Store) Make(name string) error {
	if err := fs.CheckWord("image", name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errEnding
	case s.Has(name):
		return fmt.Errorf("%w: image %q", fs.ErrExist, name)
	}
	tmp, err := s.fresh()
	if err != nil {
		return err
	}
	err = record{State: empty, Since: time.Now()}.save(tmp)
	if err == nil {
		err = os.Rename(tmp, s.path(name))
	}
	if err != nil {
		os.RemoveAll(tmp)
	}
	return err
}

// fresh makes a folder that goes with the next sweep, unless it is renamed.
func (s *Store) fresh() (string, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(s.dir, ".new-")
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	return tmp, err
}

// Remove removes the image called name, unless used, asked while no image
// can be looked up, says why not.
func (s *Store) Remove(name string, used func() error) error {
	if name == Host {
		return fmt.Errorf("%w: image host is this machine: it cannot be removed", fs.ErrNotPermitted)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errEnding
	}
	if _, err := s.look(name); err != nil {
		return err
	}
	if j := s.jobs[name]; j != nil {
		return fmt.Errorf("%w: cancel that first", j.busy())
	}
	if err := used(); err != nil {
		return err
	}
	if err := s.discard(s.path(name)); err != nil {
		return err
	}
	s.dropLayers()
	return nil
}

// discard takes path out of sight at once, and off the disk in the background.
func (s *Store) discard(path string) error {
	trash, err := replica.Trash(s.dir, path)
	if err == nil {
		s.tasks.Go(func() { replica.Remove(trash) })
	}
	return err
}

// dropLayers discards the layers that no image has, unless one is being made.
func (s *Store) dropLayers() {
	if len(s.jobs) > 0 || s.closed {
		return // the last job's end does it, or the next Open
	}
	used := make(map[string]bool)
	names, err := s.List()
	if err != nil {
		return
	}
	for _, name := range names {
		if name == Host {
			continue
		}
		r, err := load(s.path(name))
		if err != nil {
			return
		}
		for _, l := range r.Layers {
			used[l] = true
		}
	}
	entries, _ := os.ReadDir(s.layers())
	for _, e := range entries {
		if !used[e.Name()] {
			s.discard(filepath.Join(s.layers(), e.Name()))
		}
	}
}

func (s *Store) layers() string { return filepath.Join(s.dir, ".layers") }

// sweep removes what an earlier process left half done.
func (s *Store) sweep() {
	names, err := s.List()
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range replica.Leftovers(s.dir) {
		s.tasks.Go(func() { replica.Remove(path) })
	}
	for _, name := range names {
		// The files come first, then the word that they are all there.
		files := filepath.Join(s.path(name), "rootfs")
		if r, err := load(s.path(name)); name != Host && err == nil && r.State != ready && isDir(files) {
			s.discard(files)
		}
	}
	s.dropLayers()
}
