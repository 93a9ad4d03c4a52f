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
	"sync"

	"filippo.io/age"

	"hutch/fs"
	"hutch/profiles/reference"
)

// What a store holds at most.
const (
	maxSecrets = 256
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

// Names returns the names of the secrets, sorted.
func (s *Store) Names() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	return slices.Sorted(maps.Keys(all)), err
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
	if !ok {
		return "", fmt.Errorf("%w: no such secret: set it with hutch secret set %s", fs.ErrNotExist, name)
	}
	return string(value), nil
}

// Set makes value the secret called name. It is on the disk when Set returns.
func (s *Store) Set(name, value string) error {
	if err := errors.Join(CheckName(name), CheckValue(value)); err != nil {
		return err
	}
	return s.change(func(all contents) error {
		all[name] = []byte(value)
		total := 0
		for _, v := range all {
			total += len(v)
		}
		if len(all) > maxSecrets || total > maxStored {
			return fmt.Errorf("%w: the store holds %d secrets and %d MiB at most: remove some", fs.ErrNoSpace, maxSecrets, maxStored>>20)
		}
		return nil
	})
}

// Forget removes the secret called name.
func (s *Store) Forget(name string) error {
	return s.change(func(all contents) error {
		if _, ok := all[name]; !ok {
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
	sealed, _, err := fs.ReadRegular(path, 2*maxStored+1<<20)
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

// CheckName says why no secret can be called name.
func CheckName(name string) error { return reference.CheckName(name) }
