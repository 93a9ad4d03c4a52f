package profiles

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
)

// A Mount is a folder of the host that a guest sees.
type Mount struct {
	Host, Guest string // absolute
	ReadOnly    bool
}

// Mounts are words of a config, each of them a mount: HOST:GUEST or
// HOST:GUEST:ro.
type Mounts string

// maxMounts bounds the mounts of a VM.
const maxMounts = 32

// ours are the places of a guest that hutch and the system give a meaning.
var ours = []string{"/proc", "/sys", "/dev", "/workspace", "/run/hutch", "/opt/hutch"}

// add adds to those that earlier lines name.
func (m *Mounts) add(v string) error {
	all := Mounts(strings.TrimSpace(string(*m) + " " + v))
	list, err := all.List()
	if err == nil && len(list) > maxMounts {
		err = fmt.Errorf("names %d folders: at most %d", len(list), maxMounts)
	}
	if err == nil {
		*m = all
	}
	return err
}

// List returns what the words say. Of several at one place of the guest the
// last counts.
func (m Mounts) List() ([]Mount, error) {
	words, err := fs.Words(string(m))
	if err != nil {
		return nil, errors.New("has a quote that is not closed")
	}
	var list []Mount
	for _, w := range words {
		m, err := parseMount(w)
		if err != nil {
			return nil, err
		}
		list = append(slices.DeleteFunc(list, func(o Mount) bool { return o.Guest == m.Guest }), m)
	}
	return list, nil
}

func parseMount(w string) (Mount, error) {
	parts := strings.Split(w, ":")
	ro := len(parts) == 3 && parts[2] == "ro"
	if len(parts) != 2 && !ro || !filepath.IsAbs(parts[0]) || !path.IsAbs(parts[1]) {
		return Mount{}, fmt.Errorf("%.64q is not HOST:GUEST or HOST:GUEST:ro, of absolute paths", w)
	}
	m := Mount{Host: filepath.Clean(parts[0]), Guest: path.Clean(parts[1]), ReadOnly: ro}
	if err := CheckGuest(m.Guest); err != nil {
		return Mount{}, err
	}
	return m, nil
}

// CheckGuest says why nothing can be mounted at an absolute path of a guest.
func CheckGuest(name string) error {
	name = path.Clean(name)
	for _, place := range ours {
		if Within(place, name) || Within(name, place) {
			return fmt.Errorf("at %s: %s is the guest's own", name, place)
		}
	}
	return nil
}

// Within says whether name is dir or below it.
func Within(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
