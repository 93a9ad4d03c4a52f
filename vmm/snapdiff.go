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
// Now: the VM as it is, which can change meanwhile.
func (v *VM) Diff(ctx context.Context, a, b string) (string, error) {
	ctx, done, err := v.errand(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	var dirs [2]string
	for i, name := range []string{a, b} {
		if name == Now {
			dirs[i] = v.dir
			continue
		}
		_, release, err := v.snaps.Hold(name)
		if err != nil {
			return "", err
		}
		defer release()
		dirs[i] = v.snaps.Dir(name)
	}
	var text strings.Builder
	for _, part := range []string{"layer", "work"} {
		lines, err := diff.Folders(ctx, shown(dirs[0], part), shown(dirs[1], part), part+"/")
		if err != nil {
			return "", err
		}
		text.WriteString(lines)
	}
	return text.String(), nil
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
