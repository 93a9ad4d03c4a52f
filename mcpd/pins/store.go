package pins

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"hutch/fs"
)

// A Store keeps what was approved of servers' tools. Its methods may be called
// concurrently. A nil Store holds nothing back.
type Store struct {
	// Hide takes secrets out of a text before it is kept or shown: a server may say in
	// its tools what it was told. Nil: there are none.
	Hide func(string) string

	dir string

	mu      sync.Mutex         // guards the map
	servers map[string]*server // by name
}

// A server is what is known of one.
type server struct {
	path string
	of   *Store

	turn sync.Mutex // held by who judges or approves, also while the file is read and written; guards what follows
	read bool       // what follows is what the file says, and reading it again would not help
	seen bool       // there is a file: the server was listed before
	bad  error      // why the file cannot be read
	pins map[string]known
	held map[string]held // what was judged last of tools that are held back
}

// known is what is in memory of a pin.
type known struct {
	digest Digest
	raw    sum // of the text that was found to have that digest; zero: of none
}

// held is a tool that is held back.
type held struct {
	raw sum
	why string
}

// A sum is of a tool's text as it came.
type sum [sha256.Size]byte

// New returns the Store whose files are in dir, which is made when it is needed. What
// was half written there goes: nobody else may be writing.
func New(dir string) *Store {
	fs.Sweep(dir)
	return &Store{dir: dir, servers: make(map[string]*server)}
}

// A Tool is one that a server offers: its own name there, and the object that
// tells of it.
type Tool struct {
	Name string
	Raw  []byte
}

// shown returns tools with the names by which they are kept: without secrets.
func (s *Store) shown(tools []Tool) []Tool {
	list := make([]Tool, len(tools))
	for i, t := range tools {
		list[i] = Tool{s.hidden(t.Name), t.Raw}
	}
	return list
}

func (s *Store) hidden(text string) string {
	if s.Hide == nil {
		return text
	}
	return s.Hide(text)
}

// server returns what is known of a server, and holds its turn.
func (s *Store) server(name string) *server {
	s.mu.Lock()
	v := s.servers[name]
	if v == nil {
		v = &server{path: filepath.Join(s.dir, name), of: s}
		s.servers[name] = v
	}
	s.mu.Unlock()
	v.turn.Lock()
	return v
}

// load reads the file, once, or until it can be read: of descriptors there may be
// too few for a moment.
func (v *server) load() {
	if v.read {
		return
	}
	b, err := v.book()
	v.read = err == nil || errors.Is(err, errDamaged)
	if err == nil || v.bad == nil { // else what is held back is so as before
		v.held = make(map[string]held)
	}
	v.bad = err
	v.know(b)
}

// book returns what the file says, an empty one if there is none.
func (v *server) book() (*book, error) {
	b, err := read(v.path)
	if errors.Is(err, os.ErrNotExist) {
		return newBook(), nil
	}
	v.seen = true
	if err != nil {
		return newBook(), err
	}
	return b, nil
}

// know has what is in memory be as the book.
func (v *server) know(b *book) {
	was := v.pins
	v.pins = make(map[string]known, len(b.pins))
	for name, p := range b.pins {
		k := was[name]
		if k.digest != p.digest {
			k = known{digest: p.digest}
		}
		v.pins[name] = k
	}
}

// store writes the file.
func (v *server) store(b *book) error {
	if err := os.MkdirAll(filepath.Dir(v.path), 0o700); err != nil {
		return err
	}
	if err := b.write(v.path); err != nil {
		return err
	}
	v.seen, v.bad = true, nil
	v.know(b)
	return nil
}

// pin returns what is kept of a definition: without secrets.
func (s *Store) pin(d definition) pin {
	p := pin{digest: d.digest(), text: d}
	if s == nil {
		return p
	}
	if text := s.hidden(string(d)); text != string(d) {
		p.text, p.hidden = definition(text), true
		if !json.Valid(p.text) { // as one of digits was a number in it
			p.text = nil
		}
	}
	return p
}

// Text shows what a server says of a tool so that two of them can be compared: a
// line with its digest, then one for each value, by the way to it, in order.
// Text of several lines has one for each of them, all by the same way. What a
// terminal would not show as it is, is escaped, and there are no secrets in it.
func (s *Store) Text(raw []byte) string { return s.pin(define(raw)).display() }

// Approve approves tools as a server offers them now, and leaves approved what was.
func (s *Store) Approve(name string, tools []Tool) error {
	v := s.server(name)
	defer v.turn.Unlock()
	v.load()
	b, err := v.book()
	if err != nil {
		return fmt.Errorf("what was approved of server %s cannot be read: approve the server, which approves all that it offers: %w", name, err)
	}
	return v.approve(name, b, s.shown(tools))
}

// ApproveAll approves tools as a server offers them now, and of those that it offers
// too and are not held back leaves approved what was. All else that was approved of
// it is forgotten.
func (s *Store) ApproveAll(name string, tools []Tool, others []string) error {
	v := s.server(name)
	defer v.turn.Unlock()
	v.load()
	was, _ := v.book()
	b := newBook()
	for _, tool := range others {
		tool = s.hidden(tool)
		if p, ok := was.pins[tool]; ok {
			b.put(tool, p)
		}
	}
	return v.approve(name, b, s.shown(tools))
}

// approve puts tools into a book, which is the server's from then on.
func (v *server) approve(name string, b *book, tools []Tool) error {
	for _, t := range tools {
		if err := b.approve(t.Name, v.of.pin(define(t.Raw))); err != nil {
			return fmt.Errorf("tool %.100q of server %s: %w", t.Name, name, err)
		}
	}
	clear(v.held)
	return v.store(b)
}

// Approved returns what was approved of a tool, as Text has it; "" if nothing was.
func (s *Store) Approved(name, tool string) (string, error) {
	if s == nil {
		return "", nil
	}
	v := s.server(name)
	defer v.turn.Unlock()
	b, err := v.book()
	p, ok := b.pins[s.hidden(tool)]
	if err != nil || !ok {
		return "", err
	}
	return p.display(), nil
}

// Forget has every file be read anew: others were put in their place.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.servers)
}
