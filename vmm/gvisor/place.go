//go:build linux

package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
)

// checkPlaces says which folder lacks that the machine's mounts go on and that
// is not to be made: runsc makes what lacks, and before it mounts anything for
// reading only. It would make it in the host's own folders, where a link leads
// that the guest has made.
func (e *entry) checkPlaces() error {
	var c ociSpec
	if err := fs.ReadJSON(filepath.Join(e.Dir, configName), &c); err != nil {
		return err
	}
	p := places{{"/", e.Root, false}}
	for _, m := range c.Mounts {
		if m.Type != "bind" {
			continue
		}
		at, err := p.find("/", m.Destination, maxLinks)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		p = append(p, place{at, m.Source, slices.Contains(m.Options, "ro")})
	}
	return nil
}

// A place is where in the guest a folder of the host is seen.
type place struct {
	guest, host string
	readOnly    bool
}

// places are the guest's, a later one over those before.
type places []place

const maxLinks = 255

// find returns name, from the folder base on, without links, as the guest sees
// it. What is not there must be where it can be made.
func (p places) find(base, name string, links int) (string, error) {
	if links == 0 {
		return "", errors.New("too many links")
	}
	for _, n := range strings.Split(path.Clean(name), "/") {
		next := path.Join(base, n)
		host, readOnly := p.on(next)
		text, err := os.Readlink(host)
		switch {
		case err == nil:
			if path.IsAbs(text) {
				base = "/"
			}
			if base, err = p.find(base, text, links-1); err != nil {
				return "", err
			}
		case errors.Is(err, os.ErrNotExist) && readOnly:
			return "", fmt.Errorf("no folder %s: the guest sees for reading only what it would be in", next)
		default:
			base = next
		}
	}
	return base, nil
}

// on returns what name, without links but for its last part, is on the host.
func (p places) on(name string) (host string, readOnly bool) {
	for _, q := range slices.Backward(p) {
		if name == q.guest || strings.HasPrefix(name, strings.TrimSuffix(q.guest, "/")+"/") {
			return filepath.Join(q.host, strings.TrimPrefix(name, q.guest)), q.readOnly
		}
	}
	panic("the root is not a place")
}
