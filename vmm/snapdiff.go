package vmm

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hutch/vmm/diff"
)

// Diff returns the differences from the snapshot a to the snapshot b, as
// package diff writes them, with paths below work and layer. Either may be
// Now: the VM as it is, which can change meanwhile; or Nothing. A VM is compared once at a time.
func (v *VM) Diff(ctx context.Context, a, b string) (string, error) {
	return v.diff(ctx, v.comparing, diff.Bounds{}, a, b)
}

// guestDiffMost is how much a comparison remembers that the guest asked for:
// its differences are more than a model reads.
const guestDiffMost = 16 << 20

// GuestDiff is Diff for the guest: it takes its turn with those of others, and
// keeps nobody waiting who calls Diff.
func (v *VM) GuestDiff(ctx context.Context, a, b string) (string, error) {
	t := &turn{place: v.t.pace}
	defer t.end()
	return v.diff(ctx, v.guestComparing, diff.Bounds{Rest: t.rest, Most: guestDiffMost}, a, b)
}

func (v *VM) diff(ctx context.Context, room chan struct{}, bounds diff.Bounds, a, b string) (string, error) {
	ctx, done, err := v.errandAlone(ctx, room)
	if err != nil {
		return "", err
	}
	defer done()
	var dirs [2]string
	workAlone := false
	for i, name := range []string{a, b} {
		switch name {
		case Now:
			dirs[i] = v.dir
			continue
		case Nothing:
			if dirs[i], err = nothing(); err != nil {
				return "", err
			}
			defer os.RemoveAll(dirs[i])
			continue
		}
		s, release, err := v.snaps.Hold(name)
		if err != nil {
			return "", err
		}
		defer release()
		workAlone = workAlone || s.Undo
		dirs[i] = v.snaps.Dir(name)
	}
	parts := []string{"layer", "work"}
	if workAlone {
		parts = parts[1:]
	}
	var text strings.Builder
	for _, part := range parts {
		lines, err := bounds.Folders(ctx, shown(dirs[0], part), shown(dirs[1], part), part+"/")
		if err != nil {
			return "", err
		}
		text.WriteString(lines)
	}
	return text.String(), nil
}

// nothing makes the folder of a snapshot without files.
func nothing() (string, error) {
	dir, err := os.MkdirTemp("", "hutch-nothing-")
	if err != nil {
		return "", err
	}
	for _, part := range []string{"layer", "work"} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

// ShownPart returns the folder that is looked at as a part, work or layer, of
// the snapshot called name.
func (v *VM) ShownPart(name, part string) string { return shown(v.snaps.Dir(name), part) }

// shown returns the folder below dir with the guest's files of a part. Drivers
// that lay the layer over the image as an overlay keep what is written in
// layer/up, beside notes of their own.
func shown(dir, part string) string {
	path := filepath.Join(dir, part)
	if part == "layer" {
		if st, err := os.Lstat(filepath.Join(path, "up")); err == nil && st.IsDir() {
			return filepath.Join(path, "up")
		}
	}
	return path
}
