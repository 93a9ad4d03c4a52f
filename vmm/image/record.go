package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hutch/fs"
)

// The states of an image, as its record has them.
const (
	empty  = "empty"
	ready  = "ready"
	failed = "failed"
)

// A record is what image.json says.
type record struct {
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Since   time.Time `json:"since"`
	Kind    string    `json:"kind,omitempty"`
	Source  string    `json:"source,omitempty"`
	Digest  string    `json:"digest,omitempty"` // of the manifest
	Size    int64     `json:"size,omitempty"`
	Entries int64     `json:"entries,omitempty"`
	Skipped int64     `json:"skipped,omitempty"`
	Layers  []string  `json:"layers,omitempty"` // hex digests of their tar archives, the lowest first

	Architecture string   `json:"architecture,omitempty"`
	OS           string   `json:"os,omitempty"`
	Entrypoint   []string `json:"entrypoint,omitempty"`
	Cmd          []string `json:"cmd,omitempty"`
	Env          []string `json:"env,omitempty"`
	User         string   `json:"user,omitempty"`
	Workdir      string   `json:"workdir,omitempty"`
}

const recordName = "image.json"

// load reads the record in dir. A record that does not parse is put aside,
// and the image is a failed one.
func load(dir string) (record, error) {
	path := filepath.Join(dir, recordName)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && isDir(filepath.Join(dir, "rootfs")):
		return record{State: ready, Kind: "folder", Source: filepath.Join(dir, "rootfs")}, nil
	case errors.Is(err, os.ErrNotExist):
		return record{}, fmt.Errorf("%w: image %q", fs.ErrNotExist, filepath.Base(dir))
	case err != nil:
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		r = record{State: failed, Reason: fmt.Sprintf("%s does not parse, kept as %s.broken: %v", recordName, recordName, err), Since: time.Now()}
		os.Rename(path, path+".broken")
		return r, r.save(dir)
	}
	return r, nil
}

// save puts the record in dir, durably and in one step.
func (r record) save(dir string) error {
	return fs.WriteJSON(filepath.Join(dir, recordName), r, true)
}
