package permission

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hutch/profiles"
)

// A Mount is a folder that a server sees.
type Mount struct {
	Host     string // an absolute path
	Guest    string // where the server sees it, absolute
	ReadOnly bool
}

const (
	maxMounts = 32
	maxMount  = 1024 // bytes of a text
)

// notInPaths are characters that no path may have: ToolHive takes them for words
// of a shell.
const notInPaths = "$&;|`"

// ParseMount reads PATH, which is the same on both sides, or HOST:GUEST, all of absolute
// paths. ToolHive's volume://NAME:GUEST is refused. The text of its error goes on after what
// was read.
func ParseMount(s string, readOnly bool) (Mount, error) {
	m := Mount{ReadOnly: readOnly}
	if err := checkText(s); err != nil {
		return m, err
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return m, fmt.Errorf("is of the kind %.32q, which there is not here: name a folder of this machine, as HOST:GUEST", scheme)
	}
	parts := strings.Split(s, ":")
	if len(parts) > 2 {
		return m, errors.New("has more colons than one: write PATH or HOST:GUEST")
	}
	m.Host, m.Guest = parts[0], parts[len(parts)-1]
	if !path.IsAbs(m.Host) {
		return m, fmt.Errorf("has the path %.64q, which is not absolute: write the whole path, from / on", m.Host)
	}
	m.Host = path.Clean(m.Host)
	if err := CheckHost(m.Host); err != nil {
		return m, err
	}
	if !path.IsAbs(m.Guest) {
		return m, fmt.Errorf("has the path %.64q for the server, which is not absolute", m.Guest)
	}
	m.Guest = path.Clean(m.Guest)
	return m, profiles.CheckGuest(m.Guest)
}

// String returns the mount as the field volumes of a RunConfig has it: HOST:GUEST, with :ro
// behind one that is only read.
func (m Mount) String() string {
	text := m.Host + ":" + m.Guest
	if m.ReadOnly {
		text += ":ro"
	}
	return text
}

func checkText(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxMount:
		return fmt.Errorf("has %d bytes: at most %d", len(s), maxMount)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		return errors.New("has characters that are not shown")
	case strings.ContainsAny(s, notInPaths):
		return fmt.Errorf("has one of %s in it", strings.Join(strings.Split(notInPaths, ""), " "))
	case slices.Contains(strings.FieldsFunc(s, func(c rune) bool { return c == '/' || c == ':' || c == '\\' }), ".."):
		return errors.New("has .. in it: write where it leads to")
	}
	return nil
}

// closed are folders of the host of which no server sees anything: they are the
// machine itself, or where its sockets are, many of which are as good as root.
var closed = []string{"/proc", "/sys", "/dev", "/run", "/var/run"}

// sockets are the names of those by which containers are started.
var sockets = []string{"docker.sock", "containerd.sock", "crio.sock", "podman.sock"}

// CheckHost says why no server sees a folder of the host, which is no link. The text
// of its error goes on after what has the folder.
func CheckHost(name string) error {
	switch {
	case slices.Contains(sockets, path.Base(name)):
		return fmt.Errorf("has %s, which no server sees: who has it is root of the host", name)
	case name == "/" || slices.ContainsFunc(closed, func(dir string) bool { return profiles.Within(dir, name) }):
		return fmt.Errorf("has %s, which no server sees: name a folder of files", name)
	}
	return nil
}

// mounts returns what the profile says may be read and written. What stands in
// both can be written.
func (p *Profile) mounts() ([]Mount, *Fault) {
	var all []Mount
	for _, list := range []struct {
		name     string
		says     []string
		readOnly bool
	}{{"write", p.Write, false}, {"read", p.Read, true}} {
		for i, s := range list.says {
			at := fmt.Sprintf("%s[%d]", list.name, i)
			m, err := ParseMount(s, list.readOnly)
			if err != nil {
				return nil, faultf(at, "%.64q %v", s, err)
			}
			same := slices.IndexFunc(all, func(o Mount) bool { return o.Guest == m.Guest })
			switch {
			case same < 0:
				all = append(all, m)
			case all[same].Host != m.Host:
				return nil, faultf(at, "%.64q is at %s, where another is", s, m.Guest)
			}
			if len(all) > maxMounts {
				return nil, faultf(list.name, "has the server see %d folders: at most %d", len(all), maxMounts)
			}
		}
	}
	return all, nil
}
