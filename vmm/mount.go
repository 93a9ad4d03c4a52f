package vmm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/vmm/image"
)

// A Mount is a folder of the host that a guest sees.
type Mount struct {
	Host, Guest string // absolute
	ReadOnly    bool
}

// maxMounts bounds the mounts of a VM.
const maxMounts = 32

// A Mounter is a Driver whose guests can see folders of the host.
type Mounter interface {
	Mounts() bool
}

// ours are the places of a guest that hutch and the system give a meaning.
var ours = []string{"/proc", "/sys", "/dev", "/workspace", "/run/hutch", "/opt/hutch"}

// setMounts adds to those that earlier lines name: HOST:GUEST[:ro] ….
func setMounts(c *Config, v string) error {
	if v == "" {
		c.Mounts = ""
		return nil
	}
	list, err := parseMounts(c.Mounts + " " + v)
	if err != nil {
		return err
	}
	if len(list) > maxMounts {
		return fmt.Errorf("%w: %d mounts: at most %d", fs.ErrInvalid, len(list), maxMounts)
	}
	c.Mounts = strings.TrimSpace(c.Mounts + " " + v)
	return nil
}

// parseMounts returns what the words of v say. Of several at one place of the
// guest the last counts.
func parseMounts(v string) ([]Mount, error) {
	words, err := fs.Words(v)
	if err != nil {
		return nil, err
	}
	var list []Mount
	for _, w := range words {
		m, err := parseMount(w)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if list[i].Guest == m.Guest {
				list = append(list[:i], list[i+1:]...)
				break
			}
		}
		list = append(list, m)
	}
	return list, nil
}

func parseMount(w string) (Mount, error) {
	parts := strings.Split(w, ":")
	ro := len(parts) == 3 && parts[2] == "ro"
	if len(parts) != 2 && !ro || !filepath.IsAbs(parts[0]) || !path.IsAbs(parts[1]) {
		return Mount{}, fmt.Errorf("%w: mount %q is not HOST:GUEST or HOST:GUEST:ro, of absolute paths", fs.ErrInvalid, shorten(w))
	}
	m := Mount{Host: filepath.Clean(parts[0]), Guest: path.Clean(parts[1]), ReadOnly: ro}
	for _, place := range ours {
		if within(place, m.Guest) || within(m.Guest, place) {
			return Mount{}, fmt.Errorf("%w: mount at %s: %s is the guest's own", fs.ErrInvalid, m.Guest, place)
		}
	}
	return m, nil
}

// within says whether name is dir or below it.
func within(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// mounts returns what the machine of c is shown by driver d, if that can be:
// folders that are there, and have nothing to do with those of the service.
func (v *VM) mounts(c Config, d Driver, img image.Image) ([]Mount, error) {
	list, err := parseMounts(c.Mounts)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if m, ok := d.(Mounter); !ok || !m.Mounts() {
		return nil, fmt.Errorf("%w: the driver %s cannot mount folders of the host: copy what the guest needs to its workspace", fs.ErrUnsupported, d.Name())
	}
	state, err := filepath.EvalSymlinks(v.t.cfg.Dir)
	if err != nil {
		return nil, err
	}
	table, _ := os.ReadFile("/proc/self/mountinfo") // of Linux, where trees are mounted
	for i := range list {
		m := &list[i]
		host, err := filepath.EvalSymlinks(m.Host)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.Host, cmp.Or(errors.Unwrap(err), err))
		}
		m.Host = host
		if st, err := os.Stat(m.Host); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("%w: mount %s", fs.ErrNotDir, m.Host)
		}
		if within(state, m.Host) || within(m.Host, state) {
			return nil, fmt.Errorf("%w: mount %s: the state of hutchd is in %s", fs.ErrNotPermitted, m.Host, state)
		}
		if tree := treeAt(string(table), m.Host); tree != "" {
			return nil, fmt.Errorf("%w: mount %s: hutchd's tree is mounted on %s", fs.ErrNotPermitted, m.Host, tree)
		}
	}
	return list, placed(list, img)
}

// placed says which of the mounts has no folder to be on, and cannot get one:
// it is below what the guest sees for reading only.
func placed(list []Mount, img image.Image) error {
	seen := slices.Clone(list)
	for _, b := range img.Binds {
		seen = append(seen, Mount{Host: b.Host, Guest: b.Guest, ReadOnly: true})
	}
	for _, m := range list {
		var in Mount // the innermost that m is in
		for _, o := range seen {
			if o.Guest != m.Guest && within(o.Guest, m.Guest) && len(o.Guest) > len(in.Guest) {
				in = o
			}
		}
		if !in.ReadOnly {
			continue
		}
		if st, err := os.Stat(filepath.Join(in.Host, strings.TrimPrefix(m.Guest, in.Guest))); err != nil || !st.IsDir() {
			return fmt.Errorf("%w: mount at %s: no such folder in %s, which the guest sees for reading only: choose another place",
				fs.ErrNotExist, m.Guest, in.Guest)
		}
	}
	return nil
}

// treeKind is what a mount table calls the file system that hutchd mounts.
const treeKind = "fuse.hutch"

// treeAt returns where, by a mount table, a tree is mounted that dir is in, or
// that is in dir: a guest that had it could do with all VMs what it liked.
func treeAt(table, dir string) string {
	for line := range strings.Lines(table) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) == 0 || r[0] != treeKind {
			continue
		}
		if tree := escapes.Replace(l[4]); within(tree, dir) || within(dir, tree) {
			return tree
		}
	}
	return ""
}

// escapes are those of mount tables.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
