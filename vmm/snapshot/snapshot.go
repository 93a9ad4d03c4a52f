// Package snapshot keeps the snapshots of a VM: copies of folders, each set
// of them under a name, with a record of what it holds and what it cost.
//
// A snapshot is a folder NAME of the store:
//
//	record.json   an Info
//	PART/         a folder for each folder that was copied
//	PART.seen     what the files were, for the next snapshot to share them
//	points        of one for undo: the Points that it is of, a JSON line each
//
// Where the file system shares no blocks, files that have not changed since
// the snapshot before are one file in both.
//
// It gets its name when it is complete and on the disk. What else is there are
// leftovers, as package replica has it.
package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/fs"
	"hutch/vmm/replica"
)

// An Info says what a snapshot is.
type Info struct {
	Name      string        `json:"-"`
	Taken     time.Time     `json:"taken"`
	Automatic bool          `json:"automatic,omitempty"` // nobody asked for it by name
	Undo      bool          `json:"undo,omitempty"`      // it is for undo, and of the workspace alone
	Boot      string        `json:"boot,omitempty"`      // it was not forced to the disk, and counts until the host boots anew
	State     string        `json:"state"`               // of the VM
	Image     string        `json:"image"`               // of the VM
	Frozen    time.Duration `json:"frozen"`              // how long the guest stood still
	Cost      replica.Cost  `json:"cost"`
}

// A Store is a folder of snapshots. Its methods may be called concurrently.
type Store struct {
	dir string

	usersMu sync.Mutex     // guards users
	users   map[string]int // of the snapshots that are being read
}

// Open returns the store in the folder dir, which need not be there.
func Open(dir string) *Store { return &Store{dir: dir, users: make(map[string]int)} }

// Dir returns the folder of the snapshot called name.
func (s *Store) Dir(name string) string { return filepath.Join(s.dir, name) }

// Get returns what the snapshot called name is.
func (s *Store) Get(name string) (Info, error) {
	if name == "" || name[0] == '.' || strings.ContainsRune(name, '/') {
		return Info{}, notExist(name)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, name, record))
	if err != nil {
		return Info{}, notExist(name)
	}
	i := Info{Name: name}
	if err := json.Unmarshal(data, &i); err != nil {
		return Info{}, fmt.Errorf("%w: %s of snapshot %q: %w", fs.ErrIO, record, name, err)
	}
	return i, nil
}

const record = "record.json"

func notExist(name string) error { return fmt.Errorf("%w: snapshot %q", fs.ErrNotExist, name) }

// List returns the snapshots, the oldest first. Those whose records cannot
// be read are nameless to it.
func (s *Store) List() ([]Info, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var list []Info
	for _, e := range entries {
		if i, err := s.Get(e.Name()); err == nil {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b Info) int { return a.Taken.Compare(b.Taken) })
	return list, nil
}

// Hold keeps the snapshot called name from being dropped until the function
// it returns is called.
func (s *Store) Hold(name string) (Info, func(), error) {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	i, err := s.Get(name)
	if err != nil {
		return Info{}, nil, err
	}
	s.users[name]++
	return i, sync.OnceFunc(func() {
		s.usersMu.Lock()
		defer s.usersMu.Unlock()
		if s.users[name]--; s.users[name] == 0 {
			delete(s.users, name)
		}
	}), nil
}

// Drop removes the snapshot called name.
func (s *Store) Drop(name string) error {
	gone, err := s.Unname(name)
	if err != nil {
		return err
	}
	return replica.Remove(gone)
}

// Unname takes the name from a snapshot, which is none from then on, and
// returns the folder that is left to be removed.
func (s *Store) Unname(name string) (string, error) {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	if _, err := os.Lstat(filepath.Join(s.dir, name, record)); err != nil || name[0] == '.' {
		return "", notExist(name)
	}
	if s.users[name] > 0 {
		return "", fmt.Errorf("%w: snapshot %q is being read", fs.ErrBusy, name)
	}
	return replica.Trash(s.dir, s.Dir(name))
}
