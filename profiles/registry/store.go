// Package registry keeps lists of MCP servers that can be run by name: an Entry
// says what a run of one needs. The lists come from sources, the first of which is
// built in; the user sets others: files, URLs, and registries by the API
// of the MCP registry, v0.1. A Store keeps what they said on the disk, so that
// there is something to list without a network, and reads them anew in the background.
//
// Nothing that a source says is believed further than it can be: what package
// and which URL a name stands for is the source's word, and a name that an
// earlier source has cannot be taken by a later one. The manual is registry.5.
package registry

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/fs"
)

//go:embed builtin.json
var builtinText []byte

// maxSources is how many sources there may be beside the built-in one.
const maxSources = 16

// Config says what a Store stands on.
type Config struct {
	Dir string // folder for the names of the sources and what they said; made if need be
	Max int64  // bytes of a file or an answer that are read; 0: 32 MiB
	// Admit says why an open file of the host can be no source. Nil: any can.
	Admit func(*os.File) error
}

// A Store has the entries of all sources.
type Store struct {
	dir     string
	fetcher fetcher
	now     func() time.Time
	ctx     context.Context // done when the store is closed
	end     context.CancelFunc
	jobs    sync.WaitGroup // readings under way

	mu      sync.Mutex // guards what follows, and every source
	sources []*source  // the built-in one first
	index   *index     // of what they have; nil: not made yet
	closed  bool
}

// A source is one that is set.
type source struct {
	Origin
	loaded  bool          // from the disk
	kept    *kept         // what it said last; nil: nothing yet
	err     error         // why it could not be read since
	tried   time.Time     // when it was read, or was to be
	reading chan struct{} // closed when the reading under way ends; nil: there is none
}

// What is kept of a source on the disk.
type kept struct {
	Source string    `json:"source"`
	Read   time.Time `json:"read"`
	shelf
}

// Open opens the store in a folder. It reads no source yet.
func Open(cfg Config) (*Store, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	fs.Sweep(cfg.Dir)
	s := &Store{dir: cfg.Dir, fetcher: fetcher{max: cfg.Max, admit: cfg.Admit}, now: time.Now}
	if s.fetcher.max <= 0 {
		s.fetcher.max = maxBytes
	}
	builtin := Origin{Kind: "builtin"}
	r := newReader(builtin.String(), false)
	if _, err := r.document(builtinText); err != nil {
		return nil, fmt.Errorf("built-in registry: %w", err)
	}
	s.sources = []*source{{Origin: builtin, loaded: true, kept: &kept{shelf: r.shelf}}}
	origins, err := readOrigins(s.originsPath())
	if err != nil {
		return nil, err
	}
	for _, o := range origins {
		s.sources = append(s.sources, &source{Origin: o})
	}
	s.prune()
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Close ends what is under way and waits for it.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.jobs.Wait()
}

// List returns the entries, sorted by name. What is too old is read anew in
// the background.
func (s *Store) List() []*Entry { return s.current().entries }

// Lookup returns the entry called name.
func (s *Store) Lookup(name string) (*Entry, error) {
	all := s.current()
	if e := all.byName[nameKey(name)]; e != nil && e.Name == name {
		return e, nil
	}
	return nil, fmt.Errorf("%w: registry entry %q%s", fs.ErrNotExist, fs.Shorten(name), all.near(name))
}

// MaxFound is how many entries Search returns at most.
const MaxFound = 1000

// Search returns the entries that have every one of words in their name, title,
// tags, tools or description, best first. Letters may be of either case; no
// words find every entry.
func (s *Store) Search(words string) []*Entry {
	all := s.current()
	split := strings.Fields(strings.ToLower(words))
	ranks := map[*Entry]int{}
	var found []*Entry
	for _, e := range all.entries {
		if n := e.rank(split); n > 0 {
			ranks[e] = n
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b *Entry) int { return ranks[b] - ranks[a] })
	return found[:min(len(found), MaxFound)]
}

// Add sets one more source, behind those that there are. One that is there stays
// where it is. A file is read before; others in the background.
func (s *Store) Add(ctx context.Context, o Origin) error {
	if err := o.Check(); err != nil {
		return err
	}
	src := &source{Origin: o}
	if o.Kind == "file" { // nothing to load that is not read here
		sh, err := s.fetcher.read(ctx, o)
		if err != nil {
			return fmt.Errorf("registry %s: %w", o, err)
		}
		src.loaded, src.kept, src.tried = true, &kept{o.String(), s.now(), *sh}, s.now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Kind == "builtin" {
		return s.set(nil)
	}
	if s.find(o) >= 0 {
		return nil
	}
	if len(s.sources) > maxSources {
		return fmt.Errorf("%w: there are %d sources: forget one", fs.ErrNoSpace, maxSources)
	}
	if err := writeOrigins(s.originsPath(), append(s.others(), o)); err != nil {
		return err
	}
	s.sources, s.index = append(s.sources, src), nil
	if src.kept != nil {
		s.keep(o, src.kept)
	} else {
		s.begin(src)
	}
	return nil
}

// Forget has a source set no more: that at where, a path or URL.
func (s *Store) Forget(where string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.others(), func(o Origin) bool { return o.Where == where })
	if len(left) == len(s.sources)-1 {
		return fmt.Errorf("%w: source %q is not set", fs.ErrNotExist, fs.Shorten(where))
	}
	return s.set(left)
}

// set has those of the sources stay that are in origins, and the built-in one. Its
// caller holds s.mu.
func (s *Store) set(origins []Origin) error {
	if err := writeOrigins(s.originsPath(), origins); err != nil {
		return err
	}
	s.sources = slices.DeleteFunc(slices.Clone(s.sources), func(src *source) bool {
		return src.Kind != "builtin" && !slices.Contains(origins, src.Origin)
	})
	s.index = nil
	s.prune()
	return nil
}

// others returns the sources beside the built-in one. Its caller holds s.mu.
func (s *Store) others() []Origin {
	var list []Origin
	for _, src := range s.sources[1:] {
		list = append(list, src.Origin)
	}
	return list
}

func (s *Store) find(o Origin) int {
	return slices.IndexFunc(s.sources, func(src *source) bool { return src.Origin == o })
}

// current returns what all sources have, and has those read whose time has come.
func (s *Store) current() *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.known()
	for _, src := range s.sources[1:] {
		if src.due(s.now()) {
			s.begin(src)
		}
	}
	return x
}

// known returns what all sources said. Its caller holds s.mu.
func (s *Store) known() *index {
	for _, src := range s.sources {
		s.load(src)
	}
	if s.index == nil {
		s.index = newIndex(s.sources)
	}
	return s.index
}
