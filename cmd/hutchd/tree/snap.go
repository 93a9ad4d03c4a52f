package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/fs/folder"
	"hutch/vmm"
)

func snapVM(c call, args []string) error   { return c.At.vm.Snap(c.Ctx, args[0]) }
func revertVM(c call, args []string) error { return c.At.vm.Revert(c.Ctx, args[0]) }

func makeSnap(c call, name string) error { return c.At.vm.Snap(c.Ctx, name) }

func dropSnap(c call, name string) error { return c.At.vm.DropSnapshot(c.Ctx, name) }

func snapNames(c call) ([]string, error) {
	list, err := c.At.vm.Snapshots().List()
	var names []string
	for _, i := range list {
		names = append(names, i.Name)
	}
	return names, err
}

func enterSnap(c call, name string) (at, error) {
	if _, err := c.At.vm.Snapshots().Get(name); err != nil {
		return at{}, err
	}
	return at{s: c.At.s, vm: c.At.vm, gw: c.At.gw, snap: name}, nil
}

// forgetSnap forgets what was known of a snapshot, and of the differences from
// it and to it. One that is taken later under its name is another file.
func (s *Server) forgetSnap(v *sandbox.Sandbox, name string) {
	s.forget(func(i item) bool { return i.of == v.ID && i.snap != "" && (i.snap == name || i.name == name) })
	for _, part := range []string{"work", "layer"} {
		v.ForgetFolder(snapKey(name, part))
	}
	s.gone("vm/" + v.Name() + "/snap/" + name)
}

func snapKey(name, part string) string { return "snap/" + name + "/" + part }

// snapFolder returns what a snapshot has of a part, which the row is named for.
func snapFolder(c call) (fs.Node, error) {
	v, name, part := c.At.vm, c.At.snap, c.Name
	f, err := v.Folder(snapKey(name, part), func() (*folder.Folder, error) {
		f, err := openLinked(v.ShownPart(name, part), part, snapLinks[part])
		if err == nil {
			f.ReadOnly = true
		}
		return f, err
	})
	if err != nil {
		return nil, err
	}
	return f.Root(), nil
}

func snapInfo(c call) (string, error) {
	i, err := c.At.vm.Snapshots().Get(c.At.snap)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s %v\n", key, value) }
	line("taken", i.Taken.UTC().Format(time.RFC3339Nano))
	if i.Automatic {
		line("automatic", "yes")
	}
	if i.Undo {
		line("undo", "yes")
	}
	line("state", i.State)
	line("image", i.Image)
	line("files", i.Cost.Files)
	line("folders", i.Cost.Folders)
	line("bytes", i.Cost.Bytes)
	line("shared", i.Cost.Shared)
	line("linked", i.Cost.Linked)
	line("copied", i.Cost.Copied)
	if i.Cost.Skipped > 0 {
		line("skipped", i.Cost.Skipped)
	}
	line("frozen", seconds(i.Frozen))
	line("took", seconds(i.Cost.Time))
	return b.String(), nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }

// otherSnaps returns what a snapshot can be compared with.
func otherSnaps(c call) ([]string, error) {
	names, err := snapNames(c)
	names = slices.DeleteFunc(names, func(name string) bool { return name == c.At.snap })
	return append(names, vmm.Now), err
}

func enterOther(c call, name string) (at, error) {
	if name != vmm.Now {
		if _, err := c.At.vm.Snapshots().Get(name); err != nil {
			return at{}, err
		}
	}
	return at{s: c.At.s, vm: c.At.vm, gw: c.At.gw, snap: c.At.snap, name: name}, nil
}

// snapDiff is the difference from one snapshot to another or to now.
func snapDiff(c call) (string, error) { return c.At.vm.Diff(c.Ctx, c.At.snap, c.At.name) }

// openDiff takes the names of two snapshots, or of one that is compared with
// what there is now.
func openDiff(c call, flags int) (fs.Handle, error) {
	return c.At.s.openRPC(flags, func(ctx context.Context, line string) (string, error) {
		words, err := fs.Words(line)
		if err != nil {
			return "", err
		}
		if len(words) == 1 {
			words = append(words, vmm.Now)
		}
		if len(words) != 2 {
			return "", fmt.Errorf("%w: write the names of two snapshots, or of one and %s", fs.ErrInvalid, vmm.Now)
		}
		return c.At.vm.Diff(ctx, words[0], words[1])
	})
}
