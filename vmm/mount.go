package vmm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/image"
)

// A Mount is a folder of the host that a guest sees.
type Mount = profiles.Mount

// A Mounter is a Driver whose guests can see folders of the host.
type Mounter interface {
	Mounts() bool
	// Sockets says whether they can connect to sockets of the host there, too.
	Sockets() bool
}

// Mounted says why what the guest has at path is not to be removed from outside: a folder
// of the host is there. The config does not change while the VM runs.
func (v *VM) Mounted(path string) error {
	list, err := v.Config().Mounts.List()
	for _, m := range list {
		if profiles.Within(m.Guest, path) {
			return fmt.Errorf("%w: the host's folder %s is mounted there: change it there", fs.ErrNotPermitted, m.Host)
		}
	}
	return err
}

// mounts returns what the machine of c is shown by driver d, if that can be:
// folders that are there, and have nothing to do with those of the service.
func (v *VM) mounts(c Config, d Driver, img image.Image) ([]Mount, error) {
	list, err := c.Mounts.List()
	if err == nil {
		err = v.t.shows(img)
	}
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if m, ok := d.(Mounter); !ok || !m.Mounts() {
		return nil, fmt.Errorf("%w: the driver %s cannot mount folders of the host: copy what the guest needs to its workspace", fs.ErrUnsupported, d.Name())
	}
	if err := v.straight(list); err != nil {
		return nil, err
	}
	for i := range list {
		m := &list[i]
		host, err := filepath.EvalSymlinks(m.Host)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w: make that folder first, or mount another", m.Host, cmp.Or(errors.Unwrap(err), err))
		}
		m.Host = host
		if st, err := os.Stat(m.Host); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("%w: mount %s", fs.ErrNotDir, m.Host)
		}
		if m.Sockets && !d.(Mounter).Sockets() {
			return nil, fmt.Errorf("%w: mount %s: guests of the driver %s have a kernel of their own, which reaches no socket of the host: mount it without sockets", fs.ErrUnsupported, m.Host, d.Name())
		}
		if err := v.t.own.Refuse(m.Host, m.ReadOnly); err != nil {
			return nil, err
		}
	}
	return list, placed(list, img)
}

// shows refuses an image by which guests would see something of the service's own: it may
// show folders of the host, or be a link that somebody made to one.
func (t *Table) shows(img image.Image) error {
	images, err := filepath.EvalSymlinks(t.images.Dir())
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(img.Root)
	if err == nil && !profiles.Within(images, root) {
		err = t.own.Refuse(root, true)
	}
	for _, b := range img.Binds {
		if err == nil {
			err = t.own.Refuse(b.Host, true)
		}
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", img.Name, err)
	}
	return nil
}

// placed says which of the mounts would be hidden by what the image shows, or has no
// folder to be on and cannot get one: it is below what the guest sees for reading only.
func placed(list []Mount, img image.Image) error {
	seen := slices.Clone(list)
	for _, b := range img.Binds {
		seen = append(seen, Mount{Host: b.Host, Guest: b.Guest, ReadOnly: true})
	}
	for _, m := range list {
		if err := hidden(m, img); err != nil {
			return err
		}
		var in Mount // the innermost that m is in
		for _, o := range seen {
			if o.Guest != m.Guest && profiles.Within(o.Guest, m.Guest) && len(o.Guest) > len(in.Guest) {
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

// hidden says why a guest would not see m: the image has a folder of the host there, or
// leads there by a link, as /bin to /usr/bin.
func hidden(m Mount, img image.Image) error {
	if len(img.Binds) == 0 {
		return nil
	}
	for _, b := range img.Binds {
		if b.Guest == m.Guest {
			return fmt.Errorf("%w: mount at %s: the guest sees %s of this machine there: choose another place, or another image",
				fs.ErrInvalid, m.Guest, b.Host)
		}
	}
	top, _, _ := strings.Cut(m.Guest[1:], "/")
	if target, err := os.Readlink(filepath.Join(img.Root, top)); err == nil {
		return fmt.Errorf("%w: mount at %s: /%s is a link to %s in the guest: choose a place without a link in it",
			fs.ErrInvalid, m.Guest, top, filepath.Join("/", target))
	}
	return nil
}
