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
	Sockets     bool // the guest may connect to the sockets that are there
}

// Mounts are words of a config, each of them a mount: HOST:GUEST, and behind
// that what it is to be: ":ro", ":sockets" or ":ro,sockets".
type Mounts string

// openSockets is the word by which a mount has its sockets open.
const openSockets = "sockets"

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
	if len(parts) < 2 || !filepath.IsAbs(parts[0]) || !path.IsAbs(parts[1]) {
		return Mount{}, fmt.Errorf("%.64q is not HOST:GUEST, HOST:GUEST:ro or HOST:GUEST:sockets, of absolute paths", w)
	}
	m := Mount{Host: filepath.Clean(parts[0]), Guest: path.Clean(parts[1])}
	for _, option := range strings.FieldsFunc(strings.Join(parts[2:], ":"), func(r rune) bool { return r == ':' || r == ',' }) {
		switch option {
		case "ro":
			m.ReadOnly = true
		case openSockets:
			m.Sockets = true
		default:
			return Mount{}, fmt.Errorf("%.64q has %.64q behind the paths: known are ro and sockets", w, option)
		}
	}
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
