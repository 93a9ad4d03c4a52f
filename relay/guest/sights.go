package guest

import (
	"strings"
	"sync"
	"time"

	"hutch/fs"
)

// sights are what files were like when their directory was listed: programs
// that list a directory look at its files next, one by one, and each look is
// two round trips to the guest.
type sights struct {
	mu    sync.Mutex // guards what follows
	dirs  map[string]*sighted
	bytes int    // of all of them
	gen   uint64 // counts what was changed from here
	purge *time.Timer
}

// maxSights is how many bytes of what a guest says are kept in sight, and of
// one directory too: 33,000 files with short names.
const maxSights = 8 << 20

// A sighted is a directory that was listed.
type sighted struct {
	at    time.Time
	files map[string]fs.Described // but those that are out of sight
	bytes int                     // of them all, and of the path
	used  int                     // sights that served since
	again bool                    // it is being listed again
}

// What a directory and a file take, beside their texts.
const (
	perSighted = 256
	perSight   = 240
)

// newSighted takes what there is room for of the files in the directory.
func newSighted(key string, list []fs.Described, at time.Time) *sighted {
	d := &sighted{at: at, files: make(map[string]fs.Described, len(list)), bytes: perSighted + len(key)}
	for _, of := range list {
		more := perSight + len(of.Name) + len(of.Target)
		if d.bytes+more > maxSights {
			break
		}
		d.bytes += more
		d.files[of.Name] = of
	}
	return d
}

// many is how many sights a listing must have served before it is made anew
// for more of them when it is too old.
const many = 64

func keyOf(path []string) string { return strings.Join(path, "/") }

// begin returns what learn is to be told of a listing that begins now.
func (s *sights) begin() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

// learn keeps a listing that began at a time, for some time. It is of no use
// if something was changed from here meanwhile.
func (s *sights) learn(path []string, list []fs.Described, at time.Time, gen uint64, fresh time.Duration) {
	key := keyOf(path)
	d := newSighted(key, list, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen != gen {
		return
	}
	s.drop(key)
	for other := range s.dirs {
		if s.bytes+d.bytes <= maxSights {
			break
		}
		s.drop(other)
	}
	if s.dirs == nil {
		s.dirs = make(map[string]*sighted)
	}
	s.dirs[key] = d
	s.bytes += d.bytes
	if s.purge == nil {
		s.purge = time.AfterFunc(2*fresh, func() { s.clean(fresh) })
	}
}

// drop forgets a directory; mu is held.
func (s *sights) drop(key string) {
	if d := s.dirs[key]; d != nil {
		s.bytes -= d.bytes
		delete(s.dirs, key)
	}
}

// clean forgets what is old and not used again, until nothing is left.
func (s *sights) clean(fresh time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.dirs {
		if time.Since(d.at) > 2*fresh && !d.again {
			s.drop(key)
		}
	}
	s.purge = nil
	if len(s.dirs) > 0 {
		s.purge = time.AfterFunc(2*fresh, func() { s.clean(fresh) })
	}
}

// close forgets all of a guest that is gone.
func (s *sights) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.purge != nil {
		s.purge.Stop()
	}
	s.dirs, s.bytes, s.purge = nil, 0, nil
}

// A view is what find has found.
type view int

const (
	unknown view = iota
	known
	stale // and worth to be listed again by the caller, who calls done then
)

// find returns what the file called name was like, and when.
func (s *sights) find(dir []string, name string, fresh time.Duration, once bool) (fs.Described, time.Time, view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.dirs[keyOf(dir)]
	if d == nil {
		return fs.Described{}, time.Time{}, unknown
	}
	of, ok := d.files[name]
	switch {
	case !ok:
		return of, d.at, unknown
	case time.Since(d.at) < fresh:
		d.used++
		if once {
			delete(d.files, name)
		}
		return of, d.at, known
	case d.used < many || d.again:
		return of, d.at, unknown
	}
	d.again = true
	return of, d.at, stale
}

// done ends that a directory is listed again, which learn does too.
func (s *sights) done(dir []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.dirs[keyOf(dir)]; d != nil {
		d.again = false
	}
}

// forget takes the file at path, which is changed from here, and what is below
// it out of sight.
func (s *sights) forget(path []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	if len(s.dirs) == 0 || len(path) == 0 {
		return
	}
	s.hide(path)
	s.hide(path[:len(path)-1]) // whose time changes with it
	at := keyOf(path)
	for key := range s.dirs {
		if key == at || strings.HasPrefix(key, at+"/") {
			s.drop(key)
		}
	}
}

// hide takes one file out of sight; mu is held.
func (s *sights) hide(path []string) {
	if len(path) == 0 {
		return
	}
	last := len(path) - 1
	if d := s.dirs[keyOf(path[:last])]; d != nil {
		delete(d.files, path[last])
	}
}
