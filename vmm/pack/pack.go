// Package pack puts a VM into one archive, and makes its files again from that.
//
// An archive is a tar archive (PAX, so that any tar lists and unpacks it) in one
// zstd stream. Its members stand in this order:
//
//	manifest.json         a Manifest
//	env/ work/ layer/     folders of the VM, each with its own member first
//	pins/                 what was approved of the tools of its servers
//	ledger/TABLE.jsonl    its records
//	log/ snap/ saved/     its logs, its snapshots, its memory
//	digest                SHA-256, in hex, of every byte of the tar archive before this member
//
// Within a folder names stand in the order of their bytes, what is in a folder
// right behind it. A file with holes has its data alone, and a record
// HUTCH.sparse that says where they go: the length of the file, then
// OFFSET:LENGTH of each piece, with commas between.
//
// Whoever reads an archive trusts nothing in it. No name leads out of a folder,
// none comes twice, and only what a guest could have made is made.
package pack

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hutch/fs"
)

// Format is the version of the format. A reader refuses any other.
const Format = 1

// Magic is the first byte of every archive.
const Magic = 0x28

// The names of members that are no file of the VM.
const (
	manifestName = "manifest.json"
	digestName   = "digest"
)

// Parts are what an archive may have, in the order in which it has them.
var Parts = []string{"env", "work", "layer", "pins", "ledger", "log", "snap", "saved"}

// rank returns the place of a part among the others, -1 if it is none.
func rank(part string) int { return slices.Index(Parts, part) }

// A Manifest says what is in an archive, and what it needs where it is unpacked.
type Manifest struct {
	Format  int              `json:"format"`
	Version string           `json:"hutch"` // that packed it
	Name    string           `json:"name"`  // of the VM
	Taken   time.Time        `json:"taken"`
	State   string           `json:"state"`             // of the VM
	Config  string           `json:"config"`            // its text
	Driver  string           `json:"driver"`            // that the VM had
	Image   Image            `json:"image"`             // that it stands on
	Secrets []string         `json:"secrets,omitempty"` // variables that are not in it, as they are secret
	Sizes   map[string]Size  `json:"sizes"`             // of parts; a part that is missing is not in it
	Memory  *Memory          `json:"memory,omitempty"`
	Without string           `json:"without,omitempty"` // why a suspended VM's memory is not in it
	Skipped map[string]int64 `json:"skipped,omitempty"` // sockets, which belong to programs that run; by part
}

// An Image is the image of a VM as others can know it again.
type Image struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"` // "" of the image host and of folders
	Arch   string `json:"arch"`             // of the processors that its programs are for
}

// A Memory says where a suspended VM's memory can go on.
type Memory struct {
	Needs    map[string]string `json:"needs,omitempty"`    // what the driver must have there too, by its words
	Features []string          `json:"features,omitempty"` // of the processor
}

// A Size is how much a part has, when packing began.
type Size struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"` // of data, without holes
}

// maxManifest is the length of the longest manifest.
const maxManifest = 1 << 20

func readManifest(r io.Reader) (m Manifest, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return m, err
	}
	if len(data) > maxManifest {
		return m, bad("%s is longer than %d bytes", manifestName, maxManifest)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, bad("%s does not parse: %w", manifestName, err)
	}
	if m.Format != Format {
		return m, fmt.Errorf("%w: archive has format %d, and this hutchd knows %d", fs.ErrUnsupported, m.Format, Format)
	}
	return m, nil
}

// bad is the error of an archive that is not as it should be.
func bad(format string, args ...any) error {
	return fmt.Errorf("%w: archive: %w", fs.ErrInvalid, fmt.Errorf(format, args...))
}

// inLayer says whether name is of what a guest wrote over its image, where an
// overlay keeps notes of what is gone.
func inLayer(name string) bool {
	parts := strings.SplitN(name, "/", 4)
	return parts[0] == "layer" || len(parts) > 2 && parts[0] == "snap" && parts[2] == "layer"
}
