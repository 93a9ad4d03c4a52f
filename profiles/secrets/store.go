package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"

	"hutch/fs"
	"hutch/profiles/reference"
)

// What a store holds at most.
const (
	maxSecrets = 256
	maxOwn     = 1024    // of hutch's own
	maxStored  = 4 << 20 // bytes of all of them
)

// A Store keeps secrets by their names: all in one file, encrypted by
// age-encryption.org/v1, which is replaced as a whole. So nobody who can write
// the file puts one secret in another's place.
type Store struct {
	dir string

	mu sync.Mutex // held while the file is read and replaced
}

// The files of a store's folder.
const (
	storeFile = "store.age"
	keyFile   = "key"
)

// NewStore returns the store in the folder dir.
func NewStore(dir string) *Store { return &Store{dir: dir} }

// contents are secrets by their names.
type contents map[string][]byte

// ownPrefix begins the names of what hutch keeps for itself: nobody's secret can be
// called so.
const ownPrefix = "/"

func isOwn(name string, _ []byte) bool { return strings.HasPrefix(name, ownPrefix) }

// Names returns the names of the secrets, sorted.
func (s *Store) Names() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	maps.DeleteFunc(all, isOwn)
	return slices.Sorted(maps.Keys(all)), err
}

// Own returns what hutch keeps for itself under a name, as the tokens of a server;
// "": nothing.
func (s *Store) Own(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	return string(all[ownPrefix+name]), err
}

// SetOwn has hutch keep a value for itself; "": it forgets what it has.
func (s *Store) SetOwn(name, value string) error {
	if value == "" {
		if was, err := s.Own(name); was == "" && err == nil {
			return nil // and no store is made for it
		}
		return s.change(func(all contents) error { delete(all, ownPrefix+name); return nil })
	}
	if err := CheckValue(value); err != nil {
		return err
	}
	return s.change(func(all contents) error { return all.put(ownPrefix+name, value) })
}

// Get returns the secret called name.
func (s *Store) Get(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return "", err
	}
	value, ok := all[name]
	if !ok || isOwn(name, nil) {
		return "", fmt.Errorf("%w: no such secret: set it with hutch secret set %s", fs.ErrNotExist, name)
	}
	return string(value), nil
}

// Set makes value the secret called name. It is on the disk when Set returns.
func (s *Store) Set(name, value string) error {
	if err := errors.Join(reference.CheckName(name), CheckValue(value)); err != nil {
		return err
	}
	return s.change(func(all contents) error { return all.put(name, value) })
}

// put adds a value, if there is room for it.
func (all contents) put(name, value string) error {
	all[name] = []byte(value)
	total, own := 0, 0
	for name, v := range all {
		if total += len(v); isOwn(name, nil) {
			own++
		}
	}
	if len(all)-own > maxSecrets || own > maxOwn || total > maxStored {
		return fmt.Errorf("%w: the store holds %d secrets, the tokens of %d servers, and %d MiB at most: remove some", fs.ErrNoSpace, maxSecrets, maxOwn, maxStored>>20)
	}
	return nil
}

// Forget removes the secret called name.
func (s *Store) Forget(name string) error {
	return s.change(func(all contents) error {
		if _, ok := all[name]; !ok || isOwn(name, nil) {
			return fmt.Errorf("%w: no such secret: %s", fs.ErrNotExist, name)
		}
		delete(all, name)
		return nil
	})
}

// change replaces what is stored by what do makes of it.
func (s *Store) change(do func(contents) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err == nil {
		err = do(all)
	}
	if err != nil {
		return err
	}
	return s.write(all)
}

// read returns what is stored.
func (s *Store) read() (contents, error) {
	all := contents{}
	path := filepath.Join(s.dir, storeFile)
	sealed, _, err := fs.ReadRegular(path, 2*maxStored+1<<20, nil)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return all, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, fmt.Errorf("%w: the key of %s is gone: put it back, or remove the file and set its secrets anew", fs.ErrIO, path)
	}
	text, err := age.Decrypt(bytes.NewReader(sealed), keys...)
	if err == nil {
		err = json.NewDecoder(text).Decode(&all)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, text) // of which the end is authentic, too
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not decrypt: %w", fs.ErrIO, path, err)
	}
	return all, nil
}

// write stores all.
func (s *Store) write(all contents) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	keys, err := s.keys()
	if err == nil && keys == nil {
		keys, err = s.makeKey()
	}
	if err != nil {
		return err
	}
	to, err := recipient(keys[0])
	if err != nil {
		return err
	}
	return fs.Replace(filepath.Join(s.dir, storeFile), true, func(f *os.File) error {
		w, err := age.Encrypt(f, to)
		if err == nil {
			err = json.NewEncoder(w).Encode(all)
		}
		if err != nil {
			return err
		}
		return w.Close()
	})
}
