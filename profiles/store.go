package profiles

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hutch/fs"
)

// Default is the name of the profile that is always there.
const Default = "default"

//go:embed default.toml
var builtin []byte

const suffix = ".toml"

// A Store is a folder of profiles. Who changes its files need not tell: they
// are looked at when they are asked for. A profile that does not parse keeps the
// meaning it last had, which is kept on the disk, too, as one file of its name
// in another folder.
type Store struct {
	dir  string
	good string
	corp string // "": there is none
	home string // "": there is none
	now  func() time.Time
	// admit says why a reference can lead to no secret. Nil: each can.
	admit func(reference string) error

	mu     sync.Mutex         // guards loaded; held while files are read
	loaded map[string]*loaded // by name

	provided provision
}

// loaded is what is known of a profile.
type loaded struct {
	look    *look    // of its files as they were read
	profile *Profile // the last that parsed; nil if none did
	sum     *layered // what it was made of
	err     error    // why the files as they are do not
	notes   []string // on what was left out
}

// Folders are those of a Store.
type Folders struct {
	Profiles string // the user's
	Good     string // where what parses is kept
	Corp     string // corp's; "": there is none
	Home     string // the user's, with the files of AI clients; "": there is none
	// Admit says why a reference of a server can lead to no secret. Nil: each can.
	Admit func(reference string) error
}

// Open opens the folder of the user's profiles, makes it if need be, and puts
// the built-in profile there if none is.
func Open(f Folders) (*Store, error) {
	if err := errors.Join(os.MkdirAll(f.Profiles, 0o700), os.MkdirAll(f.Good, 0o700)); err != nil {
		return nil, err
	}
	s := &Store{dir: f.Profiles, good: f.Good, corp: f.Corp, home: f.Home, now: time.Now, admit: f.Admit, loaded: make(map[string]*loaded)}
	return s, s.seed()
}

func (s *Store) seed() error {
	path := s.path(Default)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fs.WriteFile(path, builtin, true)
}

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(name string) string { return filepath.Join(s.dir, name+suffix) }

// Get returns the profile called name, Default if that is empty. If its files do not
// parse it is the one that did last.
func (s *Store) Get(name string) (*Profile, error) {
	name = cmp.Or(name, Default)
	if p := s.provided.get(name); p != nil {
		return p, nil
	}
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("%w: profile name %.64q %s", fs.ErrInvalid, name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.load(name)
	switch {
	case l.profile != nil:
		return l.profile, nil
	case name == Default:
		return Parse(Default, builtin)
	case errors.Is(l.err, os.ErrNotExist):
		return nil, fmt.Errorf("%w: profile %q: see profiles, as hutch profile ls lists them", fs.ErrNotExist, name)
	}
	return nil, l.err
}

// Check says why the files of a profile, as they are now, do not count; nil if
// they do.
func (s *Store) Check(name string) error {
	name = cmp.Or(name, Default)
	if checkName(name) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(name).err; !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Names returns the names of the profiles, sorted.
func (s *Store) Names() []string {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	names := s.corpNames()
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && checkName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Err returns why files do not parse now, and what servers were detected but
// left out, a line for each, or "".
func (s *Store) Err() string {
	var b strings.Builder
	for _, name := range s.Names() {
		if err := s.Check(name); err != nil {
			b.WriteString(fs.Text(err) + "\n")
		}
		for _, note := range s.notes(name) {
			fmt.Fprintf(&b, "profile %s: %s\n", name, note)
		}
	}
	return b.String()
}

// notes returns what was left out of a profile, and why.
func (s *Store) notes(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(name).notes
}

// load brings what is known of a profile up to date. Its caller holds s.mu.
func (s *Store) load(name string) *loaded {
	was := s.loaded[name]
	if was != nil && was.look.holds(s.now()) {
		return was
	}
	l := &loaded{look: newLook(s.now())}
	docs, err := s.documents(l.look, name)
	good := filepath.Join(s.good, name+suffix)
	if errors.Is(err, os.ErrNotExist) {
		delete(s.loaded, name)
		os.Remove(good)
		return &loaded{err: err}
	}
	if err == nil {
		var found []*document
		found, l.notes = s.detected(l.look, docs)
		l.profile, l.sum, err = build(name, append(docs, found...))
		if err == nil && s.admit != nil {
			err = s.admits(l.profile)
		}
	}
	l.err, l.notes = err, append(l.notes, l.look.notes...)
	s.loaded[name] = l
	kept, _, kerr := read(good, name, maxText)
	switch {
	case err == nil:
		if text, err := l.sum.text(l.profile); err == nil && !bytes.Equal(text, kept) {
			fs.WriteFile(good, text, true) // failing that, a later process has only what the files say then
		}
	case was != nil:
		l.profile, l.sum = was.profile, was.sum
	case kerr == nil:
		l.profile, l.sum, _ = parseKept(name, kept)
	case l.profile != nil:
		l.profile, l.sum = nil, nil
	}
	return l
}

// admits says which of a profile's references can lead to no secret.
func (s *Store) admits(p *Profile) error {
	for _, text := range p.References() {
		if err := s.admit(text); err != nil {
			return fmt.Errorf("profile %s: %w", p.Name, err)
		}
	}
	return nil
}

// read returns a profile's text, or one byte more than the most. It takes an ordinary file only: a link could
// show any file of the host in an error, and a pipe would block.
func read(path, name string, most int64) ([]byte, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, nil, notOrdinary(name)
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notOrdinary(name)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	return text, info, err
}

func notOrdinary(name string) error {
	return fmt.Errorf("%w: profile %s is not an ordinary file: replace it by one", fs.ErrInvalid, name)
}
