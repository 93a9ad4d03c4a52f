// Package layer unpacks the layers of container images into folders, and
// merges such folders into a root file system. It trusts nothing in a layer:
// no name, symbolic link or hard link in it reaches a file outside the folder
// that is being made.
//
// An unpacked layer is a folder with two entries: tree, the files, and notes,
// what no file can say: what the layer takes away of those below it
// (https://github.com/opencontainers/image-spec/blob/main/layer.md).
//
// Owners and setuid bits are those of the layer if the superuser unpacks it.
// For anybody else all files are his own, without those bits, and folders are
// open to him whatever their mode says. Of extended attributes only
// security.capability is kept, and only for the superuser.
package layer

import (
	"cmp"
	"encoding/gob"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"hutch/fs"
)

// Notes are what is known of an unpacked layer besides its tree.
type Notes struct {
	Size    int64 // bytes of its files
	Entries int64
	Skipped int64 // devices, pipes and the like, which are left out

	Implied   []string    // folders that names pass through and the layer says nothing of
	Opaque    []string    // folders of which nothing below is to be seen
	Whiteouts []string    // names below that are gone
	Links     [][2]string // hard links, name and target, to files of a layer below
}

func (n *Notes) save(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "notes"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = gob.NewEncoder(f).Encode(n)
	return cmp.Or(err, f.Close())
}

// Load returns the notes of the unpacked layer dir.
func Load(dir string) (Notes, error) {
	var n Notes
	f, err := os.Open(filepath.Join(dir, "notes"))
	if err != nil {
		return n, err
	}
	defer f.Close()
	if err := gob.NewDecoder(f).Decode(&n); err != nil {
		return n, fmt.Errorf("notes of layer %s: %w", filepath.Base(dir), err)
	}
	return n, nil
}

// A Budget bounds what the layers of one image may take together.
type Budget struct {
	maxBytes, maxEntries int64
	bytes, entries       atomic.Int64
}

// NewBudget returns a budget of so many bytes and entries.
func NewBudget(bytes, entries int64) *Budget { return &Budget{maxBytes: bytes, maxEntries: entries} }

// Take takes from the budget. A file counts as long as it says it is, holes and all.
func (b *Budget) Take(bytes, entries int64) error {
	if bytes < 0 || bytes > b.maxBytes || b.bytes.Add(bytes) > b.maxBytes {
		return fmt.Errorf("%w: image is larger than %d bytes", fs.ErrInvalid, b.maxBytes)
	}
	if b.entries.Add(entries) > b.maxEntries {
		return fmt.Errorf("%w: image has more than %d files", fs.ErrInvalid, b.maxEntries)
	}
	return nil
}

// superuser says whether owners can be kept.
func superuser() bool { return os.Geteuid() == 0 }
