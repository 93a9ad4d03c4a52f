package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hutch/fs"
	"hutch/vmm/image/layer"
	"hutch/vmm/replica"
)

// What one image may have, unless the store says otherwise.
const (
	maxBytes   = 64 << 30
	maxEntries = 2 << 20
	maxLayers  = 500
	maxConfig  = 8 << 20 // bytes of a manifest or config
)

// atOnce is how many layers of an image come in at a time.
const atOnce = 3

// A source is an image that is to be had, wherever it is.
type source struct {
	kind   string
	digest string // of the manifest; "" where there is none
	config v1.ConfigFile
	layers []packed // the lowest first
}

// A packed layer is a tar archive, compressed or not.
type packed struct {
	hex  string // digest of the tar archive; "" if not known before it is read
	size int64  // as it comes; 0 if not known
	open func(ctx context.Context) (io.ReadCloser, error)
}

// mounts are the folders that something is mounted on in every machine.
var mounts = []string{"proc", "sys", "dev/shm", "tmp", "run/hutch", "workspace", "opt/hutch/bin"}

// build makes the files of an image from src. Where it fails, the record has
// the layers that came whole, so that they stay for the next try.
func (s *Store) build(ctx context.Context, j *job, src source) (record, string, error) {
	r := record{Kind: src.kind, Digest: src.digest}
	if err := checkPlatform(src.config.OS, src.config.Architecture); err != nil {
		return r, "", err
	}
	if len(src.layers) > maxLayers {
		return r, "", fmt.Errorf("%w: image has %d layers, at most %d", fs.ErrInvalid, len(src.layers), maxLayers)
	}
	j.layers.Store(int64(len(src.layers)))
	for _, l := range src.layers {
		j.bytes.Add(l.size)
	}
	if err := s.fetchAll(ctx, j, src.layers, &r); err != nil {
		return r, "", err
	}
	c := src.config
	r.Architecture, r.OS = c.Architecture, c.OS
	r.Entrypoint, r.Cmd, r.Env = c.Config.Entrypoint, c.Config.Cmd, c.Config.Env
	r.User, r.Workdir = c.Config.User, c.Config.WorkingDir
	root, err := s.merge(ctx, r.Layers)
	return r, root, err
}

// fetchAll brings in the layers and notes them in r.
func (s *Store) fetchAll(ctx context.Context, j *job, layers []packed, r *record) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	budget := layer.NewBudget(s.maxBytes, s.maxEntries)
	names := make([]string, len(layers))
	notes := make([]layer.Notes, len(layers))
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, l := range layers {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			err := context.Cause(ctx)
			if err == nil {
				names[i], notes[i], err = s.fetch(ctx, j, l, budget)
			}
			if err != nil {
				names[i] = ""
				stop(err)
			}
			j.layersDone.Add(1)
		})
	}
	wait.Wait()
	for i, n := range notes {
		r.Size, r.Entries, r.Skipped = r.Size+n.Size, r.Entries+n.Entries, r.Skipped+n.Skipped
		if names[i] != "" {
			r.Layers = append(r.Layers, names[i])
		}
	}
	return context.Cause(ctx)
}

// fetch has the layer in the store, and returns its name there.
func (s *Store) fetch(ctx context.Context, j *job, l packed, b *layer.Budget) (string, layer.Notes, error) {
	if l.hex != "" {
		if n, err := layer.Load(filepath.Join(s.layers(), l.hex)); err == nil {
			j.bytesDone.Add(l.size)
			return l.hex, n, b.Take(n.Size, n.Entries)
		}
	}
	tmp, err := s.fresh()
	if err != nil {
		return "", layer.Notes{}, err
	}
	name, notes, err := s.unpack(ctx, j, l, tmp, b)
	if err == nil {
		err = layer.Settle(tmp)
	}
	if err == nil {
		err = s.keep(tmp, name)
	}
	if err != nil {
		replica.Remove(tmp)
		if l.hex != "" && ctx.Err() == nil {
			err = fmt.Errorf("layer sha256:%s: %w", l.hex, err)
		}
	}
	return name, notes, err
}

// unpack unpacks the layer into dir, and checks that it is the right one.
func (s *Store) unpack(ctx context.Context, j *job, l packed, dir string, b *layer.Budget) (string, layer.Notes, error) {
	in, err := l.open(ctx)
	if err != nil {
		return "", layer.Notes{}, err
	}
	defer in.Close()
	counted := &counter{ctx: ctx, r: in, n: &j.bytesDone}
	plain, err := decompress(counted)
	if err != nil {
		return "", layer.Notes{}, err
	}
	defer plain.Close()
	sum := sha256.New()
	all := io.TeeReader(&bounded{plain, s.maxBytes + 1024*s.maxEntries}, sum)
	notes, err := layer.Unpack(ctx, all, dir, b)
	for _, rest := range []io.Reader{all, counted} { // to the end, where digests are checked
		if err == nil {
			_, err = io.Copy(io.Discard, rest)
		}
	}
	if err != nil {
		return "", notes, err
	}
	name := hex.EncodeToString(sum.Sum(nil))
	if l.hex != "" && name != l.hex {
		return "", notes, fmt.Errorf("%w: its digest is sha256:%s", fs.ErrInvalid, name)
	}
	return name, notes, nil
}

// keep puts the unpacked layer tmp under its name, unless it is there.
func (s *Store) keep(tmp, name string) error {
	if err := os.MkdirAll(s.layers(), 0o755); err != nil {
		return err
	}
	err := os.Rename(tmp, filepath.Join(s.layers(), name))
	if errors.Is(err, os.ErrExist) {
		return replica.Remove(tmp)
	}
	return err
}

// merge makes the root file system of the layers called names.
func (s *Store) merge(ctx context.Context, names []string) (string, error) {
	tmp, err := s.fresh()
	if err != nil {
		return "", err
	}
	root := filepath.Join(tmp, "rootfs")
	if err := os.Mkdir(root, 0o755); err != nil {
		return root, err
	}
	dirs := make([]string, len(names))
	for i, n := range names {
		dirs[i] = filepath.Join(s.layers(), n)
	}
	if err := layer.Merge(ctx, dirs, root); err != nil {
		return root, err
	}
	if err := layer.Furnish(root, mounts...); err != nil {
		return root, err
	}
	return root, layer.Settle(root)
}

// checkPlatform refuses what cannot run here. An image that says nothing of
// itself may.
func checkPlatform(system, arch string) error {
	if (system == "" || system == "linux") && (arch == "" || arch == runtime.GOARCH) {
		return nil
	}
	return fmt.Errorf("%w: image is for %s; this machine is linux/%s", fs.ErrUnsupported, plain(system+"/"+arch), runtime.GOARCH)
}

// pick returns the image of an index that can run here.
func pick(list []v1.Descriptor) (v1.Descriptor, error) {
	var here, unsaid []v1.Descriptor
	var there []string
	for _, d := range list {
		switch p := d.Platform; {
		case !d.MediaType.IsImage() && !d.MediaType.IsIndex():
		case p == nil || p.OS == "" && p.Architecture == "":
			unsaid = append(unsaid, d)
		case checkPlatform(p.OS, p.Architecture) == nil:
			here = append(here, d)
		case p.OS != "unknown": // as attestations are
			there = append(there, plain(p.OS+"/"+p.Architecture))
		}
	}
	for _, d := range here {
		if d.Platform.Variant == "" {
			return d, nil
		}
	}
	switch {
	case len(here) > 0:
		return here[0], nil
	case len(unsaid) == 1:
		return unsaid[0], nil
	case len(unsaid) > 1:
		return v1.Descriptor{}, fmt.Errorf("%w: there are %d images in it, and one is wanted", fs.ErrInvalid, len(unsaid))
	case len(there) == 0:
		return v1.Descriptor{}, fmt.Errorf("%w: there is no image in it", fs.ErrInvalid)
	}
	slices.Sort(there)
	return v1.Descriptor{}, fmt.Errorf("%w: image is for %v; this machine is linux/%s", fs.ErrUnsupported, slices.Compact(there), runtime.GOARCH)
}
